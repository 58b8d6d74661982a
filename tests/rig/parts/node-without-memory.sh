# shellcheck shell=bash disable=SC2015
# SPDX-License-Identifier: BSD-3-Clause
# A pool on a NUMA node without memory is refused in one line; with node = any it gets memory of
# another node, and RDMA works from a CPU of the node without memory.
[ "$(cat /sys/devices/system/node/has_memory)" = 0 ] && [ -d /sys/devices/system/node/node1 ] ||
	fail "the machine has no node without memory"
config_write /tmp/rmemd.conf \
	"server: listen=$RIG_ADDR insecure=yes" \
	"pool here: node=0 size=64M page_size=2M" \
	"pool bare: node=1 size=64M page_size=auto"
free=/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages
before=$(cat $free)

# refused NODE: rmemd does not start, names the cause in one line, and leaves nothing behind
refused()
{
	local status=0
	timeout 60 rmemd --config /tmp/rmemd.conf >/tmp/bare.log 2>&1 || status=$?
	cat /tmp/bare.log
	[ "$status" -eq 78 ] || fail "rmemd ended with $status"
	[ "$(grep -c "pool 'bare'" /tmp/bare.log)" = 1 ] || fail "the pool is not named in one line"
	grep -q "pool 'bare': no NUMA node $1 with memory here (nodes: 0)" /tmp/bare.log ||
		fail "the error does not say that node $1 has no memory"
	[ "$(cat $free)" = "$before" ] || fail "huge pages are not freed"
	[ ! -e "$ADMIN" ] || fail "the admin socket is left"
}
refused 1
# also with size = auto and pages of any size
sed -i '/pool bare/,/page_size/s/^size = 64M/size = auto/' /tmp/rmemd.conf
refused 1
# a node that does not exist
sed -i '/pool bare/,/page_size/s/node = 1/node = 5/' /tmp/rmemd.conf
refused 5
# node = any: memory of the other node, and RDMA from both nodes
sed -i -e '/pool bare/,/page_size/s/node = 5/node = any/' \
	-e '/pool bare/,/page_size/s/^size = auto/size = 64M/' /tmp/rmemd.conf
server_start /tmp/rmemd.conf
admin pools
admin --json pools |
	jq -e '[.pools[] | .node == 0] | all' >/dev/null || fail "a pool is not on node 0"
head -c 80000000 /dev/urandom >/tmp/file
for cpu in 0 1; do
	taskset -c $cpu rmem --server "rmem://$RIG_ADDR?fabric=rdma" put file /tmp/file || fail put
	taskset -c $cpu rmem --server "rmem://$RIG_ADDR?fabric=rdma" get file - | cmp - /tmp/file ||
		fail get
	rmem --server "rmem://$RIG_ADDR" rm file || fail rm
done
server_stop
