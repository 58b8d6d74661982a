#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two machines over soft-RoCE: the MTU, the traffic class and the source address are on the
# wire as the server's configuration and the client's URI say, the lesser MTU of both; and
# the server's address is found again when its GID has another index.
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

# In both guests.
cat >"$WORK/wire.sh" <<'WIRE'
# Count what leaves with this traffic class; a filter of its own for each.
wire_watch()
{
	modprobe -a sch_ingress cls_u32 act_gact || fail "no packet filter"
	tc qdisc replace dev eth0 clsact || fail clsact
	tc filter add dev eth0 egress protocol ip u32 match ip dport 4791 0xffff \
		match ip tos "$1" 0xff action pass || fail "tc filter"
}

# Packets that left with the class that is watched.
wire_count()
{
	tc -s filter show dev eth0 egress | awk '/Sent/ { n += $4 } END { print n + 0 }'
}
WIRE

cat >"$WORK/server.sh" <<'SERVER'
. "$1/guest.sh"
. "$1/wire.sh"
guest_install
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
before=$(rdma_objects)
server_start /tmp/rmemd.conf /tmp/admin.sock
rmemctl --socket /tmp/admin.sock devices

# of the device's element: what is so
expect()
{
	rmemctl --socket /tmp/admin.sock --json devices >/tmp/devices.json || fail devices
	jq -e ".devices[] | select(.fabric == \"rdma\") | $1" /tmp/devices.json >/dev/null || {
		cat /tmp/devices.json >&2
		fail "not so: $1"
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

# the address goes and comes; meanwhile another takes its place in the table
served='[.device_port.gids[] | select(.served).index]'
expect "$served | length == 1"
index=$(jq -r ".devices[] | select(.fabric == \"rdma\") | $served[0]" /tmp/devices.json)
ip addr del 10.8.0.1/24 dev eth0
for ((i = 0; i < 100; i++)); do
	rmemctl --socket /tmp/admin.sock --json devices | grep -q '"served":true' || break
	sleep 0.1
done
# the kernel gives the place away only once nobody holds what was there
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
rig-await done
server_stop
rdma_idle "$before"
kernel_clean
SERVER

cat >"$WORK/client.sh" <<'CLIENT'
. "$1/guest.sh"
. "$1/wire.sh"
guest_install
ip addr add 10.8.0.66/24 dev eth0
rig-await up
before=$(rdma_objects)
head -c $((512 << 10)) /dev/urandom >/tmp/file

# packets_of OPTIONS MIN MAX: how many it takes to write 512 KiB under these options.  A
# burst of more would not fit into the cable, and 6.1 loses too much time over that
packets_of()
{
	local from to uri="rmem://10.8.0.1?fabric=rdma$1"
	from=$(packets rxe0)
	rmem --server "$uri" put file /tmp/file || fail "put with $1"
	to=$(packets rxe0)
	rmem --server "$uri" get file - | cmp - /tmp/file || fail "get with $1"
	rmem --server "$uri" rm file || fail "rm with $1"
	echo "client: $((to - from)) packets with '$1'"
	[ $((to - from)) -ge "$2" ] && [ $((to - from)) -lt "$3" ] ||
		fail "$((to - from)) packets with $1, not $2 to $3"
}
# the server takes no more than 1024
packets_of '' 512 900
packets_of '&mtu=4096' 512 900
packets_of '&mtu=512' 1024 1500
packets_of '&mtu=256' 2048 3000
wire_watch 136
packets_of '&traffic_class=136&retry_count=2&ack_timeout=16&rd_atomic=2' 512 900
[ "$(wire_count)" -ge 512 ] || fail "$(wire_count) packets have the traffic class"
echo "client: $(wire_count) packets of traffic class 136"

# from another address of this host; one that it has not, leads nowhere
packets_of '&source=10.8.0.66&relaxed_ordering=yes' 512 900
if rmem --server 'rmem://10.8.0.1?fabric=rdma&source=10.8.0.99' ls 2>/tmp/refused; then
	fail "a source that is not there"
fi
cat /tmp/refused
rig-mark marked
rig-await moved
packets_of '' 512 900
rig-mark done
rdma_idle "$before"
kernel_clean
CLIENT

for leg in $(legs 612:rxe 61:rxe); do
	echo "== kernel ${leg%:*}, ${leg#*:}"
	"$RIG" pair --kernel "${leg%:*}" --device "${leg#*:}" --memory 1024 --timeout 300 \
		"bash $WORK/server.sh $WORK" "bash $WORK/client.sh $WORK" || {
		echo "FAILED on $leg: $?"
		exit 1
	}
done
