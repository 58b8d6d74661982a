#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two soft-RoCE devices, and a pool for each: what is lent of a pool goes through its device
# alone, by the packets that the devices count, and is reached by a session of one channel;
# over TCP all is there.  A session that has no way to a device gets memory of the other's
# pool, and is told why when there is none.  A device that comes later lends after a restart.
#   RMEM_RIG_LEGS  on which kernel:device pairs, default 612:rxe
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

cat >"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
guest_install
before=$(rdma_objects)
ip link add dummy2 type dummy && ip link set dummy2 mtu 9000 up && ip addr add 10.11.0.1/24 dev dummy2 ||
	fail "no third network"
cat >/tmp/rmemd.conf <<-CONF
	[server]
	listen = 10.9.0.1, 10.10.0.1, 10.11.0.1
	insecure = yes
	state = /tmp/state
	[session]
	heartbeat = 5s
	fence = 60s
	[admin]
	socket = /tmp/admin.sock
	[pool left]
	size = 96M
	node = 0
	page_size = base
	devices = rxe0
	[pool right]
	size = 64M
	node = 1
	page_size = base
	devices = rxe1, none7
CONF
mkdir /tmp/state
mount -t tmpfs -o size=300M,mode=700 none /tmp/state || fail mount
server_start /tmp/rmemd.conf /tmp/admin.sock
grep '\[pool right\] devices: no RDMA device none7 is served now' /tmp/rmemd.log || fail "none7 is not told"
rmemctl --socket /tmp/admin.sock pools
rmemctl --socket /tmp/admin.sock --json pools |
	jq -e '[.pools[].devices] == [["rxe0"], ["rxe1", "none7"]]' >/dev/null || fail "devices of the pools"

# through DEVICE OTHER CMD...: nothing but the channels' set-up goes through the other
through()
{
	local a b
	a=$(packets "$1") b=$(packets "$2")
	timeout 100 "${@:3}" >/tmp/out 2>&1 || {
		cat /tmp/out
		fail "${*:3}"
	}
	a=$(($(packets "$1") - a)) b=$(($(packets "$2") - b))
	echo "${*:3}: $1 $a, $2 $b packets"
	[ "$a" -gt 1000 ] && [ "$b" -lt 200 ] || fail "it does not go through $1"
}
head -c 20M /dev/urandom >/tmp/file
for channels in 1 4; do
	export RMEM_SERVER="rmem://10.9.0.1?fabric=rdma&channels=$channels"
	through rxe0 rxe1 rmem put --place node:0 one /tmp/file
	through rxe1 rxe0 rmem put --place node:1 two /tmp/file
	for name in one two; do
		[ $name = one ] && set -- rxe0 rxe1 || set -- rxe1 rxe0
		through "$1" "$2" rmem get --force $name /tmp/back
		cmp /tmp/file /tmp/back || fail "$name"
		rmem --server "rmem://10.9.0.1?fabric=tcp" get $name - | cmp - /tmp/file || fail "$name over TCP"
		# near the memory, and the calls that have one channel of their own
		[ "$(rmem crc $name | cut -c1-8)" = "$(rmem --server 'rmem://10.9.0.1?fabric=tcp' crc $name | cut -c1-8)" ] ||
			fail "crc of $name"
	done
	# in stripes over both, each through its own
	a=$(packets rxe0) b=$(packets rxe1)
	rmem -v put --place interleave both /tmp/file || fail "interleave"
	a=$(($(packets rxe0) - a)) b=$(($(packets rxe1) - b))
	echo "interleaved: rxe0 $a, rxe1 $b packets"
	awk -v a="$a" -v b="$b" 'BEGIN { exit !(a > 1000 && b > 1000 && a < 2 * b && b < 2 * a) }' ||
		fail "both are to carry it"
	rmem get both - | cmp - /tmp/file || fail "both"
	rmem --server "rmem://10.9.0.1?fabric=tcp" get both - | cmp - /tmp/file || fail "both over TCP"
	# what one device would have to reach on both sides it cannot
	if rmem copy --place node:1 one copied 2>/tmp/err; then
		fail "a copy from one device's memory to the other's"
	fi
	grep 'no RDMA device that this queue has a channel to reaches both leases' /tmp/err || fail "$(cat /tmp/err)"
	rmem copy --place node:0 one copied || fail "a copy beside it"
	rmem get copied - | cmp - /tmp/file || fail "copied"
	rmem rm copied both || fail rm
done

# a pool that outlasts its process is lent as the configuration says by then, and a device that
# came too late for the last one lends it
rdma link add none7 type rxe netdev dummy2 || fail "no third device"
through rxe1 none7 rmem get --force two /tmp/back
server_stop
server_start /tmp/rmemd.conf /tmp/admin.sock
rmemctl --socket /tmp/admin.sock --json pools |
	jq -e '[.pools[].devices] | sort == [["rxe0"], ["rxe1", "none7"]]' >/dev/null || fail "devices after a restart"
through rxe1 rxe0 rmem get --force two /tmp/back
cmp /tmp/file /tmp/back || fail "two after a restart"
! grep 'none7 is served now' /tmp/rmemd.log || fail "none7 is not served"
a=$(packets none7)
rmem get two - | cmp - /tmp/file || fail "two over two devices"
a=$(($(packets none7) - a))
echo "from two devices: none7 $a packets"
[ "$a" -gt 1000 ] || fail "none7 does not lend it"
rdma link delete none7 || fail "none7 stays"

# who gets to rxe0 alone has its memory there, wherever it wishes it
ip link set dummy1 down
ip addr flush dev dummy1
export RMEM_SERVER="rmem://10.9.0.1?fabric=rdma"
through rxe0 rxe1 rmem put --place node:1 three /tmp/file
if rmem get two - >/dev/null 2>/tmp/err; then
	fail "two is read without a way"
fi
cat /tmp/err
grep -q 'lies in pool right, which is lent through other RDMA devices than this session uses' /tmp/err ||
	fail "what it says"
head -c 80M /dev/zero >/tmp/large
if rmem put large /tmp/large 2>/tmp/err; then
	fail "more than its pool has"
fi
cat /tmp/err
rmem --server "rmem://10.9.0.1?fabric=tcp" get two - | cmp - /tmp/file || fail "two over TCP"
rmem --server "rmem://10.9.0.1?fabric=tcp" rm one two three || fail rm
server_stop
rdma_idle "$before"
kernel_clean
CMD

for leg in $(legs 612:rxe); do
	if [ "${leg#*:}" != rxe ]; then
		echo "$leg: the other devices count no packets"
		continue
	fi
	echo "== kernel ${leg%:*}, ${leg#*:}"
	"$RIG" run --kernel "${leg%:*}" --device "${leg#*:}" --devices 2 --numa 2 --node-memory 1536,1536 \
		--timeout 400 "bash $WORK/cmd.sh $WORK" || {
		echo "FAILED on $leg: $?"
		exit 1
	}
done
