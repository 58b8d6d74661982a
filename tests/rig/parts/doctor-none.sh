# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# A host without any RDMA device.
# shellcheck source=tests/rig/guest/doctor-functions
. "${top_srcdir:?}/tests/rig/guest/doctor-functions"
config_write /tmp/rmemd.conf "server: listen=$RIG_ADDR insecure=yes" \
	"pool main: size=64M page_size=base"
host "no RDMA device at all" rmemctl doctor -c /tmp/rmemd.conf
says warning rdma-device 'has no RDMA device' 'infiniband: (is empty|does not exist)' \
	'modprobe rdma_rxe'
echo "$broken broken hosts"
