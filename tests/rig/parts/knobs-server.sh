# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The server of two machines over soft-RoCE: the MTU, the traffic class and the source address on
# the wire are those of the server's configuration and the client's URI, and the MTU is the
# lower one of both; the server finds its address again when its GID has another index.
# shellcheck source=tests/rig/parts/knobs-wire.sh
: "${top_srcdir:?}"
. "$top_srcdir/tests/rig/parts/knobs-wire.sh"
cat >/tmp/rmemd.conf <<-CONF
	[server]
	listen = 10.8.0.1
	insecure = yes
	[rdma]
	enabled = yes
	mtu = 4096
	ack_timeout = 15
	retry_count = 5
	[device rxe0]
	device_port = 1
	address = 10.8.0.1
	mtu = 1024
	traffic_class = 104
	rd_atomic = 7
	[admin]
	socket = /tmp/admin.sock
	[pool main]
	size = 64M
CONF
server_start /tmp/rmemd.conf /tmp/admin.sock
rmemctl --socket /tmp/admin.sock devices

# expect FILTER: a jq filter holds for the device in the JSON output
expect()
{
	rmemctl --socket /tmp/admin.sock --json devices >/tmp/devices.json || fail devices
	jq -e ".devices[] | select(.fabric == \"rdma\") | $1" /tmp/devices.json >/dev/null || {
		cat /tmp/devices.json >&2
		fail "the device does not satisfy: $1"
	}
}
expect '.knobs.mtu == 1024 and .knobs.traffic_class == 104 and .knobs.ack_timeout == 15'
expect '.knobs.retry_count == 5 and .knobs.rnr_retry_count == 6 and .knobs.rd_atomic == 7'
expect '.knobs.service_level == null and (.knobs.relaxed_ordering | not)'
expect '.device_port.active_mtu == 4096'
wire_watch 104
rig-mark up
rig-await marked
[ "$(wire_count)" -gt 0 ] || fail "no packet of the server has its traffic class"
echo "server: $(wire_count) packets of traffic class 104"

# the address is removed and added again; meanwhile another one takes its GID index
served='[.device_port.gids[] | select(.served).index]'
expect "$served | length == 1"
index=$(jq -r ".devices[] | select(.fabric == \"rdma\") | ${served}[0]" /tmp/devices.json)
ip addr del 10.8.0.1/24 dev eth0
for ((i = 0; i < 100; i++)); do
	rmemctl --socket /tmp/admin.sock --json devices | grep -q '"served":true' || break
	sleep 0.1
done
# the kernel gives the index to another address only once nothing refers to it
for ((i = 0; i < 30; i++)); do
	ip addr add 10.8.0.77/24 dev eth0
	sleep 0.3
	place=$(rmemctl --socket /tmp/admin.sock --json devices |
		jq '.devices[0].device_port.gids[] | select(.gid == "::ffff:10.8.0.77").index')
	[ "$place" != "$index" ] || break
	ip addr del 10.8.0.77/24 dev eth0
	sleep 0.3
done
ip addr add 10.8.0.1/24 dev eth0
for ((i = 0; i < 100; i++)); do
	rmemctl --socket /tmp/admin.sock --json devices | grep -q '"served":true' && break
	sleep 0.1
done
expect "$served | length == 1 and .[0] != $index"
echo "server: GID index $index, then $(jq -c "$served" <<<"$(jq '.devices[0]' /tmp/devices.json)")"
rig-mark moved
rig-await finished
server_stop
ip addr del 10.8.0.77/24 dev eth0
tc qdisc del dev eth0 clsact
