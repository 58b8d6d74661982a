# shellcheck shell=bash disable=SC2015,SC2317
# SPDX-License-Identifier: BSD-3-Clause
# Two NUMA nodes with pages of 2 MiB and 1 GiB.
# - Every pool is on its node and has its page size, by the kernel and by `rmemctl pools`.
# - A pool that the host has too few pages for is refused in one line, and its pages are freed; so
#   is a lease that can be registered only in part.
# - Pools on transparent huge pages are resized, in a memfd and in a file.
config_write /tmp/rmemd.conf \
	"server: listen=$RIG_ADDR insecure=yes" \
	"pool small0: node=0 size=64M page_size=base" \
	"pool huge0: node=0 size=128M page_size=2M" \
	"pool huge1: node=1 size=64M page_size=2M" \
	"pool giant1: node=1 size=1G page_size=1G" \
	"pool auto0: node=0 size=1G page_size=auto" \
	"pool rest1: node=1 size=auto page_size=2M" \
	"pool tenth1: node=1 size=auto share=10% page_size=base"

# free_2m NODE: number of its free pages of 2 MiB
free_2m()
{
	cat "/sys/devices/system/node/node$1/hugepages/hugepages-2048kB/free_hugepages"
}
before=$(free_2m 0),$(free_2m 1)
server_start /tmp/rmemd.conf
admin pools
admin --json pools >/tmp/pools.json

# expect POOL NODE PAGE_KB PAGES_NAME: numa_maps, which has the pages of each node, and rmemctl
# agree
expect()
{
	local line other=$((1 - $2))
	line=$(grep -F "memfd:rmem-pool-$1" "/proc/$SERVER_PID/numa_maps") ||
		fail "no mapping of $1"
	echo "$line"
	[[ $line == *" N$2="* ]] || fail "$1 has no page on node $2"
	[[ $line != *" N$other="* ]] || fail "$1 has pages on node $other"
	[[ $line == *"kernelpagesize_kB=$3"* ]] || fail "$1 is not on pages of $3 KiB"
	jq -e --arg n "$1" --argjson node "$2" --arg pages "$4" \
		'.pools[] | select(.name == $n) | .node == $node and .pages == $pages' \
		/tmp/pools.json >/dev/null || fail "rmemctl shows another node or page size of $1"
}
expect small0 0 4 base
expect huge0 0 2048 2M
expect huge1 1 2048 2M
expect giant1 1 1048576 1G
expect auto0 0 1048576 1G
# the pages of the node that huge1 does not use
expect rest1 1 2048 2M
jq -e --argjson bytes $(((${before#*,} - 32) << 21)) \
	'.pools[] | select(.name == "rest1") | .bytes == $bytes and .bytes_asked == null' \
	/tmp/pools.json >/dev/null || fail "rest1 has not the rest of $before pages"
expect tenth1 1 4 base

# a lease works
head -c 3000000 /dev/urandom >/tmp/file
export RMEM_SERVER="rmem://$RIG_ADDR?fabric=rdma"
rmem put file /tmp/file || fail put
rmem get file - | cmp - /tmp/file || fail get
rmem rm file || fail rm

# resized EVENT POOL MIB: wait for the event of the pool; the pool then has this size
resized()
{
	await 30 grep "^$1: .*pool=$2\]" /tmp/rmemd.log ||
		{ tail /tmp/rmemd.log; fail "no $1 of $2"; }
	admin --json pools |
		jq -e --arg n "$2" --argjson bytes $(($3 << 20)) \
			'.pools[] | select(.name == $n) | .bytes == $bytes' >/dev/null ||
		fail "$2 does not have $3 MiB"
}
# a reload adds and frees huge pages on the node of the pool
free0=$(free_2m 0)
sed -i '/pool huge0/,/page_size/s/^size = 128M/size = 192M/' /tmp/rmemd.conf
kill -HUP "$SERVER_PID"
resized pool-grown huge0 192
[ "$(free_2m 0)" = $((free0 - 32)) ] || fail "$(free_2m 0) pages are free, were $free0"
admin --json pools |
	jq -e '.pools[] | select(.name == "huge0") | .node == 0' >/dev/null || fail "another node"
sed -i '/pool huge0/,/page_size/s/^size = 192M/size = 63M/
	/pool giant1/,/page_size/s/^size = 1G/size = 2G/' /tmp/rmemd.conf
kill -HUP "$SERVER_PID"
resized pool-shrunk huge0 64
[ "$(free_2m 0)" = $((free0 + 32)) ] || fail "$(free_2m 0) pages are free, were $free0"
resized pool-not-grown giant1 1024
text='it stays at 1 GiB: 1 page of 1G wanted on node 1, 0 free there: echo 2 >'
grep -q "^pool-not-grown: $text" /tmp/rmemd.log || fail "the event does not name the missing page"
# overcommit of one page is not enough
sed -i '/pool huge0/,/page_size/s/^size = 63M/size = 600M/' /tmp/rmemd.conf
echo 1 >/proc/sys/vm/nr_overcommit_hugepages
kill -HUP "$SERVER_PID"
resized pool-not-grown huge0 64
echo 0 >/proc/sys/vm/nr_overcommit_hugepages
[ "$(free_2m 0)" = $((free0 + 32)) ] || fail "$(free_2m 0) pages are free, were $free0"
rmem put file /tmp/file || fail put
rmem get file - | cmp - /tmp/file || fail get
rmem rm file || fail rm
sed -i '/pool huge0/,/page_size/s/^size = 600M/size = 128M/
	/pool giant1/,/page_size/s/^size = 2G/size = 1G/' /tmp/rmemd.conf
kill -HUP "$SERVER_PID"
resized pool-grown huge0 128
server_stop

# RLIMIT_MEMLOCK allows the registration of the first segment of a lease, but not of the second: the
# lease is refused, and no memory stays pinned
config_write /tmp/pinned.conf \
	"server: listen=$RIG_ADDR insecure=yes" \
	"pool huge0: node=0 size=64M page_size=2M" \
	"pool huge1: node=1 size=64M page_size=2M"
rmemd()
{
	ulimit -l $((100 << 10))
	exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock "$(type -P rmemd)" "$@"
}
server_start /tmp/pinned.conf
unset -f rmemd
pinned()
{
	awk '/^VmPin:/ { print $2 }' "/proc/$SERVER_PID/status"
}
pinned_is()
{
	[ "$(pinned)" = "$1" ]
}
idle=$(pinned)
truncate -s 120M /tmp/large
for ((i = 0; i < 3; i++)); do
	if rmem put large /tmp/large 2>/tmp/err; then
		fail "more memory is registered than may be pinned"
	fi
	cat /tmp/err
	grep -qE 'ibv_reg_mr of (64|56) MiB: RLIMIT_MEMLOCK is 100 MiB, raise it' /tmp/err ||
		fail "the error does not name RLIMIT_MEMLOCK"
	await 10 pinned_is "$idle" || fail "$(pinned) KiB are pinned, were $idle"
done
head -c 80M /dev/urandom >/tmp/large
rmem put large /tmp/large || fail "memory below the limit is not granted"
[ "$(pinned)" -lt $((100 << 10)) ] || fail "$(pinned) KiB are pinned"
rmem get large - | cmp - /tmp/large || fail get
rmem rm large || fail rm
admin --json pools |
	jq -e '[.pools[].lent_bytes] | add == 0' >/dev/null || fail "memory is still lent"
server_stop
rm /tmp/large

# transparent huge pages, which a memfd gets only if shmem_enabled allows it
shmem_enabled=/sys/kernel/mm/transparent_hugepage/shmem_enabled
grep -q '\[never\]' $shmem_enabled || fail "$shmem_enabled: $(cat $shmem_enabled)"
mkdir /tmp/state
mount -t tmpfs -o size=300M,mode=700 none /tmp/state || fail mount
config_write /tmp/thp.conf \
	"server: listen=$RIG_ADDR insecure=yes state=auto" \
	"pool thp1: node=1 size=64M page_size=thp"

# no_thp REMEDY: rmemd does not start, and its error contains REMEDY
no_thp()
{
	if timeout 60 rmemd --config /tmp/thp.conf >/tmp/no-thp.log 2>&1; then
		fail "rmemd started without transparent huge pages"
	fi
	cat /tmp/no-thp.log
	grep -q "pool 'thp1': .*$1" /tmp/no-thp.log || fail "the error lacks: $1"
}

# thp_is MIB: the pool has this size, completely in huge pages of its node
thp_is()
{
	local kib
	kib=$(awk '/ShmemHugePages/ { print $4 }' /sys/devices/system/node/node1/meminfo)
	[ "$kib" = $(($1 << 10)) ] || fail "node 1 has $kib KiB of $1 MiB in huge pages"
	admin --json pools |
		jq -e --argjson bytes $(($1 << 20)) \
			'.pools[0] | .bytes == $bytes and .node == 1 and .pages == "thp"' \
			>/dev/null ||
		fail "rmemctl shows another size, node or page size of thp1"
}

# thp_mapped FILE MIB: the daemon has mapped this much of FILE in huge pages
thp_mapped()
{
	local kib
	kib=$(awk -v file="$1" '/^[0-9a-f]+-/ { on = index($0, file) }
		on && /^ShmemPmdMapped:/ { n += $2 } END { print n + 0 }' "/proc/$SERVER_PID/smaps")
	[ "$kib" = $(($2 << 10)) ] || fail "$kib KiB of $2 MiB are mapped in huge pages"
}

# thp_resizes FILE: the pool shrinks and grows while it holds a lease
thp_resizes()
{
	server_start /tmp/thp.conf
	thp_is 64
	thp_mapped "$1" 64
	rmem put file /tmp/file || fail put
	sed -i 's/^size = .*/size = 15M/' /tmp/thp.conf
	kill -HUP "$SERVER_PID"
	resized pool-shrunk thp1 16
	thp_is 16
	thp_mapped "$1" 16
	sed -i 's/^size = .*/size = 96M/' /tmp/thp.conf
	kill -HUP "$SERVER_PID"
	resized pool-grown thp1 96
	thp_is 96
	thp_mapped "$1" 96
	rmem get file - | cmp - /tmp/file || fail get
}
no_thp 'no transparent huge pages (never): echo advise > /sys'
echo advise >$shmem_enabled || fail "$shmem_enabled"
thp_resizes memfd:rmem-pool-thp1
echo never >$shmem_enabled
sed -i 's/^size = .*/size = 128M/' /tmp/thp.conf
kill -HUP "$SERVER_PID"
resized pool-not-grown thp1 96
thp_is 96
rmem rm file || fail rm
server_stop
# for a file the options of the mount apply
sed -i 's|^state = .*|state = /tmp/state|; s/^size = .*/size = 64M/' /tmp/thp.conf
no_thp 'mount -o remount,huge=advise'
mount -o remount,huge=advise /tmp/state || fail remount
thp_resizes /tmp/state/pool-
kill -KILL "$SERVER_PID"
wait "$SERVER_PID"
server_start /tmp/thp.conf
thp_is 96
rmem get file - | cmp - /tmp/file || fail "after a kill"
rmem rm file || fail rm
server_stop
umount /tmp/state || fail umount

# a node with too few huge pages: one line with cause and remedy
sed -i '/pool huge1/,/page_size/s/size = 64M/size = 900M/' /tmp/rmemd.conf
if timeout 60 rmemd --config /tmp/rmemd.conf >/tmp/short.log 2>&1; then
	fail "rmemd started without the pages"
fi
cat /tmp/short.log
grep -q 'huge1' /tmp/short.log && grep -q 'node 1' /tmp/short.log ||
	fail "the message does not name pool and node"
[ "$(free_2m 0),$(free_2m 1)" = "$before" ] || fail "huge pages are not freed"

# with overcommit mmap() succeeds, but the node lacks the pages when they are touched
echo 1 >/proc/sys/vm/nr_overcommit_hugepages
config_write /tmp/late.conf \
	"server: listen=$RIG_ADDR insecure=yes" \
	"pool here0: node=0 size=64M page_size=base" \
	"pool late1: node=1 size=$((2 * ${before#*,} + 100))M page_size=2M"
if timeout 60 rmemd --config /tmp/late.conf >/tmp/late.log 2>&1; then
	fail "rmemd started without the pages"
fi
cat /tmp/late.log
grep -q "pool 'late1': $((${before#*,} + 50)) pages of 2M wanted on node 1, ${before#*,} free" \
	/tmp/late.log ||
	fail "the error does not say that node 1 has too few pages"
[ "$(free_2m 0),$(free_2m 1)" = "$before" ] || fail "huge pages are not freed"
# page_size = auto takes smaller pages instead
sed -i '/pool late1/,/page_size/s/page_size = 2M/page_size = auto/' /tmp/late.conf
server_start /tmp/late.conf
admin --json pools |
	jq -e '.pools[] | select(.name == "late1") | .node == 1 and .pages != "2M"' >/dev/null ||
	fail "late1 has pages of 2 MiB"
[ "$(free_2m 0),$(free_2m 1)" = "$before" ] || fail "unused huge pages are not freed"
server_stop
echo 0 >/proc/sys/vm/nr_overcommit_hugepages
