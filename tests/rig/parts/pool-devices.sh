# shellcheck shell=bash disable=SC2015
# SPDX-License-Identifier: BSD-3-Clause
# Two devices and a pool for each, checked by the packet counters of the devices:
# - a lease is accessed only through the device of its pool, also by a session of one channel;
# - over TCP every lease is accessible;
# - a session without a path to a device gets memory of the other pool, or an error with the cause;
# - a device that appears later is used after a restart.
ip link add dummy2 type dummy && ip link set dummy2 mtu 9000 up &&
	ip addr add 10.11.0.1/24 dev dummy2 ||
	fail "no third network"
config_write /tmp/rmemd.conf \
	"server: listen=10.9.0.1,10.10.0.1,10.11.0.1 insecure=yes state=/tmp/state" \
	"session: heartbeat=5s fence=60s" \
	"pool left: size=96M node=0 page_size=base devices=rxe0" \
	"pool right: size=64M node=1 page_size=base devices=rxe1,none7"
mkdir /tmp/state
mount -t tmpfs -o size=300M,mode=700 none /tmp/state || fail mount
server_start /tmp/rmemd.conf
grep '\[pool right\] devices: no RDMA device none7 is served, or waited for' /tmp/rmemd.log ||
	fail "the log does not name none7"
admin pools
admin --json pools |
	jq -e '[.pools[].devices] == [["rxe0"], ["rxe1", "none7"]]' >/dev/null ||
	fail "devices of the pools"

# through DEVICE OTHER CMD...: CMD transfers through DEVICE; OTHER has only packets for the set-up
# of channels
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
	[ "$a" -gt 1000 ] && [ "$b" -lt 200 ] || fail "the packets do not go through $1"
}
head -c 20M /dev/urandom >/tmp/file
for channels in 1 4; do
	export RMEM_SERVER="rmem://10.9.0.1?fabric=rdma&channels=$channels"
	through rxe0 rxe1 rmem put --place node:0 one /tmp/file
	through rxe1 rxe0 rmem put --place node:1 two /tmp/file
	for name in one two; do
		set -- rxe0 rxe1
		[ $name = one ] || set -- rxe1 rxe0
		through "$1" "$2" rmem get --force $name /tmp/back
		cmp /tmp/file /tmp/back || fail "$name"
		rmem --server "rmem://10.9.0.1?fabric=tcp" get $name - | cmp - /tmp/file ||
			fail "$name over TCP"
		# the tool asks the server for the CRC on the channel of synchronous calls
		[ "$(rmem crc $name | cut -c1-8)" = \
			"$(rmem --server 'rmem://10.9.0.1?fabric=tcp' crc $name | cut -c1-8)" ] ||
			fail "crc of $name"
	done
	# an interleaved lease: each stripe through the device of its pool
	a=$(packets rxe0) b=$(packets rxe1)
	rmem -v put --place interleave both /tmp/file || fail "interleave"
	a=$(($(packets rxe0) - a)) b=$(($(packets rxe1) - b))
	echo "interleaved: rxe0 $a, rxe1 $b packets"
	awk -v a="$a" -v b="$b" \
		'BEGIN { exit !(a > 1000 && b > 1000 && a < 2 * b && b < 2 * a) }' ||
		fail "the devices do not carry equal parts"
	rmem get both - | cmp - /tmp/file || fail "both"
	rmem --server "rmem://10.9.0.1?fabric=tcp" get both - | cmp - /tmp/file ||
		fail "both over TCP"
	# no device can access both leases
	if rmem copy --place node:1 one copied 2>/tmp/err; then
		fail "a copy between memory of different devices is accepted"
	fi
	grep 'no RDMA device that this queue has a channel to reaches both leases' /tmp/err ||
		fail "$(cat /tmp/err)"
	rmem copy --place node:0 one copied || fail "a copy in memory of one device"
	rmem get copied - | cmp - /tmp/file || fail "copied"
	rmem rm copied both || fail rm
done

# a restart applies the configured devices again, also one that appeared after the last start
rdma link add none7 type rxe netdev dummy2 || fail "no third device"
through rxe1 none7 rmem get --force two /tmp/back
server_stop
server_start /tmp/rmemd.conf
admin --json pools |
	jq -e '[.pools[].devices] | sort == [["rxe0"], ["rxe1", "none7"]]' >/dev/null ||
	fail "devices after a restart"
through rxe1 rxe0 rmem get --force two /tmp/back
cmp /tmp/file /tmp/back || fail "two after a restart"
! grep 'no RDMA device none7' /tmp/rmemd.log || fail "the log says that none7 is not served"
a=$(packets none7)
rmem get two - | cmp - /tmp/file || fail "two over two devices"
a=$(($(packets none7) - a))
echo "from two devices: none7 $a packets"
[ "$a" -gt 1000 ] || fail "none7 does not carry it"
rdma link delete none7 || fail "none7 stays"

# a session that reaches only rxe0 gets memory of that device's pool, also if it asks for another
# node
ip link set dummy1 down
ip addr flush dev dummy1
export RMEM_SERVER="rmem://10.9.0.1?fabric=rdma"
through rxe0 rxe1 rmem put --place node:1 three /tmp/file
if rmem get two - >/dev/null 2>/tmp/err; then
	fail "two is read without a path to its device"
fi
cat /tmp/err
grep -q 'lies in pool right, which is lent through other RDMA devices than this session uses' \
	/tmp/err ||
	fail "the error does not name the pool"
head -c 80M /dev/zero >/tmp/large
if rmem put large /tmp/large 2>/tmp/err; then
	fail "more is granted than the pool has"
fi
cat /tmp/err
rmem --server "rmem://10.9.0.1?fabric=tcp" get two - | cmp - /tmp/file || fail "two over TCP"
rmem --server "rmem://10.9.0.1?fabric=tcp" rm one two three || fail rm
server_stop
