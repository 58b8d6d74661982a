# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The server of two machines over soft-RoCE.  Traffic class and source address on the wire are those
# of the server's configuration and of the client's URI; the MTU is the lower one of both.  The
# server finds its address again when its GID has another index.
# shellcheck source=tests/rig/parts/knobs-wire.sh
: "${top_srcdir:?}"
. "$top_srcdir/tests/rig/parts/knobs-wire.sh"
config_write /tmp/rmemd.conf \
	"server: listen=10.8.0.1 $(keys_give)" \
	"rdma: enabled=yes mtu=4096 ack_timeout=15 retry_count=5" \
	"device rxe0: device_port=1 address=10.8.0.1 mtu=1024 traffic_class=104 rd_atomic=7" \
	"pool main: size=64M"
server_start /tmp/rmemd.conf
admin devices

served()
{
	admin --json devices | grep -q '"served":true'
}
not_served()
{
	! served
}
expect_device '.knobs.mtu == 1024 and .knobs.traffic_class == 104 and .knobs.ack_timeout == 15'
expect_device '.knobs.retry_count == 5 and .knobs.rnr_retry_count == 6 and .knobs.rd_atomic == 7'
expect_device '.knobs.service_level == null and (.knobs.relaxed_ordering | not)'
expect_device '.device_port.active_mtu == 4096'
wire_watch 104
rig-mark up
rig-await marked
[ "$(wire_count)" -gt 0 ] || fail "no packet of the server has its traffic class"
echo "server: $(wire_count) packets of traffic class 104"

# the address is removed and added again; meanwhile another address gets its GID index
served='[.device_port.gids[] | select(.served).index]'
expect_device "$served | length == 1"
index=$(jq -r ".devices[] | select(.fabric == \"rdma\") | ${served}[0]" /tmp/devices.json)
ip addr del 10.8.0.1/24 dev eth0
await 10 not_served
# the kernel reuses the index only when nothing refers to it
for ((i = 0; i < 30; i++)); do
	ip addr add 10.8.0.77/24 dev eth0
	sleep 0.3
	place=$(admin --json devices |
		jq '.devices[0].device_port.gids[] | select(.gid == "::ffff:10.8.0.77").index')
	[ "$place" != "$index" ] || break
	ip addr del 10.8.0.77/24 dev eth0
	sleep 0.3
done
ip addr add 10.8.0.1/24 dev eth0
await 10 served
expect_device "$served | length == 1 and .[0] != $index"
echo "server: GID index $index, then $(jq -c "$served" <<<"$(jq '.devices[0]' /tmp/devices.json)")"
rig-mark moved
rig-await finished
server_stop
ip addr del 10.8.0.77/24 dev eth0
tc qdisc del dev eth0 clsact
