#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two NUMA nodes with 2 MiB and 1 GiB pages: every pool lies on the node and the pages it
# was configured for, as the kernel tells it, and `rmemctl pools` says the same.
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

cat >"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
guest_install
cat >/tmp/rmemd.conf <<-CONF
	[server]
	listen = $RIG_ADDR
	insecure = yes
	[admin]
	socket = /tmp/admin.sock
	[pool small0]
	node = 0
	size = 64M
	page_size = base
	[pool huge0]
	node = 0
	size = 128M
	page_size = 2M
	[pool huge1]
	node = 1
	size = 64M
	page_size = 2M
	[pool giant1]
	node = 1
	size = 1G
	page_size = 1G
	[pool auto0]
	node = 0
	size = 1G
	page_size = auto
CONF
server_start /tmp/rmemd.conf /tmp/admin.sock
rmemctl --socket /tmp/admin.sock pools
rmemctl --socket /tmp/admin.sock --json pools >/tmp/pools.json

# expect POOL NODE PAGE_KB PAGES_NAME: the kernel's word (numa_maps counts pages per node),
# then rmemctl's
expect()
{
	local line other=$((1 - $2))
	line=$(grep -F "memfd:rmem-pool-$1" "/proc/$SERVER_PID/numa_maps") || fail "no mapping of $1"
	echo "$line"
	[[ $line == *" N$2="* ]] || fail "$1 has no page on node $2"
	[[ $line != *" N$other="* ]] || fail "$1 has pages on node $other"
	[[ $line == *"kernelpagesize_kB=$3"* ]] || fail "$1 is not on pages of $3 KiB"
	jq -e --arg n "$1" --argjson node "$2" --arg pages "$4" \
		'.pools[] | select(.name == $n) | .node == $node and .pages == $pages' \
		/tmp/pools.json >/dev/null || fail "rmemctl says otherwise of $1"
}
expect small0 0 4 base
expect huge0 0 2048 2M
expect huge1 1 2048 2M
expect giant1 1 1048576 1G
expect auto0 0 1048576 1G

# leases are lent from the node asked for, and work
head -c 3000000 /dev/urandom >/tmp/file
export RMEM_SERVER="rmem://$RIG_ADDR?fabric=rdma"
rmem put file /tmp/file || fail put
rmem get file - | cmp - /tmp/file || fail get
rmem rm file || fail rm
server_stop

# a node that is short of huge pages: one line, with cause and remedy
sed -i '/pool huge1/,/page_size/s/size = 64M/size = 900M/' /tmp/rmemd.conf
if timeout 60 rmemd --config /tmp/rmemd.conf >/tmp/short.log 2>&1; then
	fail "rmemd started without the pages"
fi
cat /tmp/short.log
grep -q 'huge1' /tmp/short.log && grep -q 'node 1' /tmp/short.log ||
	fail "the message names neither pool nor node"
kernel_clean
CMD

"$RIG" run --numa 2 --node-memory 3072,3072 --hugepages-2m 200 --hugepages-1g 1 --timeout 150 \
	"bash $WORK/cmd.sh $WORK" || {
	echo "FAILED: $?"
	exit 1
}
