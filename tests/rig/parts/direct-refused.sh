# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# iWARP needs rdma_cm: the daemon refuses connect = direct and names the device.
config_write /tmp/rmemd.conf \
	"server: listen=$RIG_ADDR insecure=yes" \
	"pool main: size=64M" \
	"rdma: enabled=yes connect=direct"
! rmemd --config /tmp/rmemd.conf >/tmp/output 2>&1 || fail "rmemd starts"
grep "RDMA device siw0: iWARP cannot connect without rdma_cm" /tmp/output || {
	cat /tmp/output >&2
	fail "the error does not name the device"
}
