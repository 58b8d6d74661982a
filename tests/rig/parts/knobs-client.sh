# shellcheck shell=bash disable=SC2015
# SPDX-License-Identifier: BSD-3-Clause
# The client of two machines; see knobs-server.sh.
# shellcheck source=tests/rig/parts/knobs-wire.sh
: "${top_srcdir:?}"
. "$top_srcdir/tests/rig/parts/knobs-wire.sh"
ip addr add 10.8.0.66/24 dev eth0
keys_take
rig-await up
head -c $((512 << 10)) /dev/urandom >/tmp/file

# packets_of OPTIONS MIN MAX: a put of 512 KiB with these options sends at least MIN and fewer than
# MAX packets.  A longer file would overflow the cable, and 6.1 resends lost packets slowly.
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
# the MTU of the server is 1024
packets_of '' 512 900
packets_of '&mtu=4096' 512 900
packets_of '&mtu=512' 1024 1500
packets_of '&mtu=256' 2048 3000
wire_watch 136
packets_of '&traffic_class=136&retry_count=2&ack_timeout=16&rd_atomic=2' 512 900
[ "$(wire_count)" -ge 512 ] || fail "$(wire_count) packets have the traffic class"
echo "client: $(wire_count) packets of traffic class 136"

# source addresses: a second one of this machine, and one that it does not have
packets_of '&source=10.8.0.66&relaxed_ordering=yes' 512 900
if rmem --server 'rmem://10.8.0.1?fabric=rdma&source=10.8.0.99' ls 2>/tmp/refused; then
	fail "a source address that does not exist is accepted"
fi
cat /tmp/refused
rig-mark marked
rig-await moved
packets_of '' 512 900
rig-mark finished
