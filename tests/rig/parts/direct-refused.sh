# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# iWARP needs rdma_cm: the daemon refuses connect = direct and names the device.
cat >/tmp/rmemd.conf <<-CONF
	[server]
	listen = $RIG_ADDR
	insecure = yes
	[admin]
	socket = /tmp/admin.sock
	[pool main]
	size = 64M
	[rdma]
	enabled = yes
	connect = direct
CONF
! rmemd --config /tmp/rmemd.conf >/tmp/output 2>&1 || fail "iWARP is served"
grep "RDMA device siw0: iWARP cannot connect without rdma_cm" /tmp/output || {
	cat /tmp/output >&2
	fail "the error does not name the device"
}
