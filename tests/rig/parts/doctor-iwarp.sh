# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Hosts with iWARP.
# shellcheck source=tests/rig/guest/doctor-functions
. "${top_srcdir:?}/tests/rig/guest/doctor-functions"
config_write /tmp/rmemd.conf "server: listen=$RIG_ADDR insecure=yes" \
	"pool main: size=64M page_size=base"
rmemctl doctor -c /tmp/rmemd.conf || true
host "the clock is not synchronised" rmemctl doctor -q -c /tmp/rmemd.conf
says ok rdma-device 'siw0: software, iWARP' '' ''
says ok rdma-address 'dummy0 has an address' '' ''

ip address del "$RIG_ADDR/24" dev dummy0
host "iWARP without an address" rmemctl doctor -q -c /tmp/rmemd.conf
says warning rdma-address 'siw0, port 1 has no IPv4 address' 'getifaddrs: dummy0' \
	'ip address add .* dev dummy0'
ip address add "$RIG_ADDR/24" dev dummy0

echo "$broken broken hosts"
