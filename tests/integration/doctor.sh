#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rmemctl doctor --root: each finding, made true by the files of a host; then this host with a
# daemon.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq

root=$dir/root
conf=$dir/doctor.conf
findings=0

# put PATH TEXT: a file of the host
put()
{
	mkdir -p "$root${1%/*}"
	printf '%s\n' "$2" >"$root$1"
}

# device NAME NODE NETDEV: an adapter with one active port of RoCE; NODE "": soft-RoCE
device()
{
	local port=/sys/class/infiniband/$1/ports/1
	put "/sys/class/infiniband/$1/node_type" "1: CA"
	[ -z "$2" ] || put "/sys/class/infiniband/$1/device/numa_node" "$2"
	put "$port/state" "4: ACTIVE"
	put "$port/link_layer" Ethernet
	put "$port/gids/0" fe80:0000:0000:0000:0000:00ff:fe00:0001
	put "$port/gid_attrs/types/0" "RoCE v2"
	put "$port/gid_attrs/ndevs/0" "$3"
	put "$port/gids/1" 0000:0000:0000:0000:0000:ffff:c000:0201
	put "$port/gid_attrs/types/1" "IB/RoCE v1"
	put "$port/gids/2" 0000:0000:0000:0000:0000:ffff:c000:0201
	put "$port/gid_attrs/types/2" "RoCE v2"
	put "$port/gids/3" 0000:0000:0000:0000:0000:0000:0000:0000
	put "/sys/class/net/$3/mtu" 9000
	put "/sys/class/net/$3/flags" 0x1003
	put "/sys/class/net/$3/carrier" 1
	put "/sys/class/infiniband_verbs/uverbs0/ibdev" "$1"
	put /dev/infiniband/uverbs0 ""
}

# A good host: two nodes with huge pages, an adapter on node 0.
good()
{
	rm -rf "$root"
	device mlx5_0 0 eth0
	put /sys/class/misc/rdma_cm/dev 10:122
	put /dev/infiniband/rdma_cm ""
	put /sys/devices/system/node/has_memory 0-1
	local node kind folder
	for node in 0 1; do
		put "/sys/devices/system/node/node$node/meminfo" "Node $node MemFree: 8388608 kB"
		for kind in 2048kB 1048576kB; do
			folder=/sys/devices/system/node/node$node/hugepages/hugepages-$kind
			put "$folder/nr_hugepages" 64
			put "$folder/free_hugepages" 64
		done
	done
	for kind in 2048kB 1048576kB; do
		put "/sys/kernel/mm/hugepages/hugepages-$kind/nr_hugepages" 128
		put "/sys/kernel/mm/hugepages/hugepages-$kind/free_hugepages" 128
	done
	put /sys/kernel/mm/transparent_hugepage/shmem_enabled \
		"always within_size [advise] never deny force"
	put /proc/meminfo "MemAvailable: 16777216 kB"
	put /proc/net/tcp "  sl  local_address rem_address   st"
	put /proc/self/limits \
		"Max locked memory         unlimited            unlimited            bytes
Max open files            1024                 524288               files"
	config "pool near: node=0 size=64M page_size=2M"
}

# config SECTION...: the configuration, of a server of all addresses
config()
{
	local section word
	{
		printf '[server]\nlisten = 0.0.0.0\ninsecure = yes\n'
		for section; do
			echo "[${section%%: *}]"
			for word in ${section#*: }; do
				echo "${word%%=*} = ${word#*=}"
			done
		done
	} >"$conf"
}

# examine STATUS: run the doctor; its exit status is STATUS
examine()
{
	local status=0
	"$RMEMCTL" --json doctor -c "$conf" --root "$root" >"$dir/json" 2>"$dir/err" || status=$?
	[ "$status" -eq "$1" ] || {
		cat "$dir/json" "$dir/err"
		fail "the exit status is $status, not $1"
	}
	# lines have at most 100 columns, but for commands
	"$RMEMCTL" doctor -c "$conf" --root "$root" >"$dir/text" || true
	! grep -v '^ *fix: ' "$dir/text" | grep -E '.{101}' || fail "a line is too long"
}

# finds LEVEL CHECK TEXT SEEN FIX: there is such a finding; TEXT, SEEN ("SOURCE: VALUE") and FIX
# are regular expressions, of which the last two may be ""
finds()
{
	jq -e --arg level "$1" --arg check "$2" --arg text "$3" --arg seen "$4" --arg fix "$5" '
		.findings | map(select(.level == $level and .check == $check
			and (.text | test($text))
			and ($seen == "" or any(.seen[]; "\(.source): \(.value)" | test($seen)))
			and ($fix == "" or any(.fix[]; test($fix))))) | length == 1' \
		"$dir/json" >/dev/null || {
		jq . "$dir/json"
		fail "no finding of $2, $1: $3; seen: $4; fix: $5"
	}
	findings=$((findings + 1))
	echo "ok: $1 $2: $3"
}

good
examine 0
jq -e '.errors == 0 and .warnings == 0 and .notes == 2 and .ok > 8' "$dir/json" >/dev/null ||
	fail "the good host: $(cat "$dir/text")"
finds note congestion 'cannot be read from the driver of eth0' '' ''
finds ok rdma-address 'mlx5_0, port 1 is reached at 192.0.2.1$' '' ''
finds ok listen 'served at 0.0.0.0' '' ''
finds ok numa "'near' is on node 0" '' ''

config "tcp: advertise=192.0.2.9:17462" "pool near: node=0 size=64M page_size=2M"
examine 0
finds ok advertise 'connect to 192.0.2.9:17462 for data' '' ''
config "tcp: advertise=127.0.0.1:17462" "pool near: node=0 size=64M page_size=2M"
examine 3
finds warning advertise 'connect to 127.0.0.1:17462 .* that host itself' 'tcp. advertise, item 1' \
	'editor .*tcp. advertise'

config "rdma: mtu=1024" "tcp: enabled=no check_address=no" "pool near: node=0 size=64M page_size=2M"
examine 0
finds note configuration '^keys without effect, as their fabric has enabled = no$' \
	'doctor.conf: .tcp. check_address$' '^editor '

# ---- devices ----

good
rm -r "$root/sys/class/infiniband"
examine 3
finds warning rdma-device 'no RDMA device' '/sys/class/infiniband: does not exist' \
	'rdma link add rxe0'
mkdir "$root/sys/class/infiniband"
put /sys/bus/pci/devices/0000:3b:00.0/vendor 0x15b3
put /sys/bus/pci/drivers/mlx5_core/0000:3b:00.0/vendor 0x15b3
config "rdma: enabled=yes"
examine 4
finds error rdma-device 'no RDMA device' '0000:3b:00.0/vendor: 0x15b3, .* mlx5_ib, is not loaded' \
	'^modprobe mlx5_ib$'
config "rdma: enabled=no"
examine 0
! jq -e '.findings | any(.check | test("rdma"))' "$dir/json" >/dev/null ||
	fail "RDMA is not used, but examined"

good
config "rdma: devices=mlx5_0,mlx5_7"
examine 4
finds error rdma-device 'mlx5_7.* is missing' 'infiniband/mlx5_7: does not exist' 'rdma link'

# ---- ports ----

good
put /sys/class/infiniband/mlx5_0/ports/1/state "1: DOWN"
put /sys/class/net/eth0/flags 0x1002
examine 3
finds warning rdma-port 'mlx5_0, port 1 is not active' 'ports/1/state: 1: DOWN' \
	'^ip link set dev eth0 up$'
put /sys/class/net/eth0/flags 0x1003
put /sys/class/net/eth0/carrier 0
config "rdma: enabled=yes"
examine 4
finds error rdma-port 'mlx5_0, port 1 is not active' 'eth0/carrier: 0' '^ethtool eth0'
put /sys/class/infiniband/mlx5_0/ports/1/link_layer InfiniBand
put /sys/class/infiniband/mlx5_0/ports/1/state "2: INIT"
put /sys/class/net/eth0/carrier 1
examine 4
finds error rdma-port 'mlx5_0, port 1 is not active' 'state: 2: INIT' opensm
put /sys/class/infiniband/mlx5_0/ports/1/state "4: ACTIVE"
examine 0
finds note rdma-address 'InfiniBand: rdma_cm needs' '' ''

good
rm "$root"/sys/class/infiniband/mlx5_0/ports/1/{gids,gid_attrs/types}/[12]
put /sys/class/infiniband/mlx5_0/ports/1/gids/1 0000:0000:0000:0000:0000:0000:0000:0000
examine 3
finds warning rdma-address 'has no IPv4 address' 'ports/1/gids: no GID' 'ip address add .* dev eth0'
put /sys/class/infiniband/mlx5_0/ports/1/gids/1 2001:0db8:0000:0000:0000:0000:0000:0001
put /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/1 "RoCE v2"
examine 0
finds note rdma-address 'over IPv6 only' '' ''

good
put /sys/class/net/eth0/mtu 1500
examine 0
finds note rdma-mtu 'MTU of eth0, 1500, limits that of RDMA to 1024' 'eth0/mtu: 1500' \
	'eth0 mtu 4200'
put /sys/class/net/eth0/mtu 576
examine 3
finds warning rdma-mtu 'MTU of eth0, 576, limits that of RDMA to 256' '' ''

# ---- files and modules ----

good
rm -r "$root/sys/class/misc/rdma_cm" "$root/dev/infiniband/rdma_cm"
examine 3
finds warning rdma-files 'rdma_ucm is not loaded' 'dev/infiniband/rdma_cm: does not exist' \
	'^modprobe rdma_ucm'
good
rm -r "$root/sys/class/infiniband_verbs"
examine 3
finds warning rdma-files 'ib_uverbs is not loaded' 'infiniband_verbs: has no device' \
	'^modprobe ib_uverbs'
good
rm -r "$root/dev/infiniband"
examine 3
finds warning rdma-files 'uverbs0 is missing$' 'infiniband_verbs/uverbs0: exists' '^udevadm'
put /.dockerenv ""
examine 3
finds warning rdma-files 'uverbs0 is missing: this container \(docker\)' '' \
	'^docker run --device=/dev/infiniband'
finds warning rdma-files 'rdma_cm is missing: this container \(docker\)' 'misc/rdma_cm: exists' \
	'^docker run'
rm "$root/.dockerenv"
put /run/.containerenv ""
examine 3
finds warning rdma-files 'uverbs0 is missing: this container \(podman\)' '' \
	'^podman run --device=/dev/infiniband'
rm "$root/run/.containerenv"
mkdir -p "$root/var/run/secrets/kubernetes.io"
examine 3
finds warning rdma-files 'uverbs0 is missing: this container \(kubernetes\)' '' 'into the pod'

# ---- congestion ----

good
put /sys/class/net/eth0/ecn/roce_np/enable/3 1
examine 0
finds note congestion 'no priority of eth0 has flow control, but .*ECN' 'roce_np/enable: 1' ''
put /sys/class/net/eth0/ecn/roce_np/enable/3 0
examine 3
finds warning congestion 'no priority of eth0 has flow control, and' 'roce_np/enable: 0' \
	'dcb pfc set dev eth0'
good
put /sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence 4711
put /sys/class/infiniband/mlx5_0/ports/1/hw_counters/local_ack_timeout_err 0
examine 0
finds note congestion 'has lost packets' 'hw_counters/out_of_sequence: 4711' 'rdma statistic'

# ---- addresses and ports ----

good
sed -i 's/^listen = .*/listen = 127.0.0.1/' "$conf"
examine 3
finds warning listen 'RDMA is not served' 'listen = 127.0.0.1' '\[server\] listen'
sed -i 's/^listen = .*/listen = 192.0.2.1/' "$conf"
examine 0

# rmemd's port 7460 is 0x1D24, 7462 is 0x1D26
zeros=0000000000000000
listens="   0: $zeros$zeros:1D26 $zeros$zeros:0000 0A"
listens+=" 00000000:00000000 00:00000000 00000000     0        0 4242 1"
good
put /proc/net/tcp6 \
	"  sl  local_address                         remote_address                        st
$listens"
put /proc/77/comm nginx
mkdir -p "$root/proc/77/fd"
ln -s 'socket:[4242]' "$root/proc/77/fd/3"
examine 4
finds error ports 'nginx has TCP port 7462 of \[tcp\]' 'tcp6: .*7462, inode 4242' '^ss -ltnp'
rm -r "$root/proc/77"
examine 3
finds warning ports 'a program has TCP port 7462' '' ''
put /proc/net/tcp6 "${listens/ 0A / 06 }"
examine 0

good
put /proc/sys/kernel/hostname mem1
examine 0
finds note clients 'not known here' '' '^rmem doctor rmem://mem1:7460   # on a client$'

# ---- limits ----

good
put /proc/self/limits "Max locked memory         8388608              8388608              bytes
Max open files            1024                 4096                 files"
examine 4
finds error memlock 'only 8 MiB of memory may be locked.*need 64 MiB' 'RLIMIT_MEMLOCK 8388608' \
	'ulimit -l unlimited'
finds warning descriptors 'only 4096 descriptors.*of 1024 sessions and .* channels over TCP fit' \
	'RLIMIT_NOFILE 4096' 'ulimit -n [0-9]+'
put /proc/self/limits "Max locked memory         75497472             75497472             bytes
Max open files            1024                 4096                 files"
examine 3
finds warning memlock 'only 72 MiB .*need 64 MiB, and the daemon up to 16 MiB' '' ''
put /proc/self/status "Name:	x
CapEff:	0000000000004000"
examine 3
finds ok memlock 'not limited' '' ''
put /proc/self/status "Name:	x
CapEff:	0000000000000000"
config "pool near: node=0 size=auto page_size=2M"
examine 3
finds warning memlock 'size = auto' '' ''

# ---- memory ----

good
config "pool near: node=0 size=32M page_size=2M" "pool second: node=0 size=128M page_size=2M"
examine 4
finds error huge-pages "'second' needs 80 pages of 2M on node 0, 64 are free" \
	'node0.*free_hugepages: 64' \
	'^echo 80 >/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages$'
put /sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages 500
examine 4
finds error huge-pages "'second' needs 80" 'node1.*: enough, but node 1 is not that of the pool' ''
config "pool big: node=any size=200G page_size=1G"
examine 4
finds error huge-pages "'big' needs 200 pages of 1G, 128 are free" '' 'hugepagesz=1G'
put /sys/kernel/mm/hugepages/hugepages-524288kB/nr_hugepages 3
put /sys/kernel/mm/hugepages/hugepages-524288kB/free_hugepages 2
config "pool arm: node=any size=2G page_size=512M"
examine 4
finds error huge-pages "'arm' needs 4 pages of 512M, 2 are free" '' \
	'^echo 5 >/sys/kernel/mm/hugepages/hugepages-524288kB/nr_hugepages$'
config "pool plain: node=1 size=9G page_size=base"
examine 4
finds error huge-pages "'plain' needs 9 GiB on node 1, 8 GiB are available" 'node1/meminfo' ''

good
put /proc/self/mountinfo "24 23 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
put /proc/self/cgroup 0::/box.slice
put /sys/fs/cgroup/box.slice/hugetlb.2MB.max 67108864
put /sys/fs/cgroup/box.slice/hugetlb.2MB.current 33554432
examine 4
finds error huge-pages "'near' needs 64 MiB, the limit of its control group leaves 32 MiB" \
	'/sys/fs/cgroup/box.slice/hugetlb.2MB.max: 64 MiB; 32 MiB are used or for rmemd itself' \
	'^echo 100663296 >/sys/fs/cgroup/box.slice/hugetlb.2MB.max$'
put /sys/fs/cgroup/box.slice/hugetlb.1GB.max 0
put /sys/fs/cgroup/box.slice/hugetlb.1GB.current 0
config "pool auto: node=0 size=64M"
examine 0
finds note huge-pages "'auto' gets no huge pages" '' ''
put /sys/fs/cgroup/box.slice/hugetlb.2MB.max max
put /sys/fs/cgroup/box.slice/memory.max 104857600
put /sys/fs/cgroup/box.slice/memory.current 4194304
config "pool plain: node=0 size=300M page_size=base"
examine 4
finds error huge-pages "'plain' needs 300 MiB, the limit of its control group leaves 87.2 MiB" \
	'/sys/fs/cgroup/box.slice/memory.max: 100 MiB; 12.8 MiB are used or for rmemd itself' \
	'^echo [0-9]+ >/sys/fs/cgroup/box.slice/memory.max$'
# a group of systemd, whose unit has the limit
put /proc/self/cgroup 0::/box.slice/rmemd.service
for limit in high:MemoryHigh max:MemoryMax; do
	put "/sys/fs/cgroup/box.slice/rmemd.service/memory.${limit%:*}" 52428800
	put /sys/fs/cgroup/box.slice/rmemd.service/memory.current 4194304
	examine 4
	finds error huge-pages \
		"'plain' needs 300 MiB, the limit of its control group leaves 37.6 MiB" \
		"/rmemd.service/memory.${limit%:*}: 50 MiB" \
		"^systemctl edit rmemd   # .Service. ${limit#*:}=[0-9]+M; then restart it$"
	rm -r "$root/sys/fs/cgroup/box.slice/rmemd.service"
done
# a group below that of the unit is not the unit's
put /proc/self/cgroup 0::/box.slice/rmemd.service/below
put /sys/fs/cgroup/box.slice/rmemd.service/below/memory.max 52428800
put /sys/fs/cgroup/box.slice/rmemd.service/below/memory.current 4194304
examine 4
finds error huge-pages "'plain' needs 300 MiB" '' \
	'^echo [0-9]+ >/sys/fs/cgroup/box.slice/rmemd.service/below/memory.max$'
put /proc/self/cgroup 0::/box.slice
examine 4
# what it says is enough
put /sys/fs/cgroup/box.slice/memory.max \
	"$(jq -r '.findings[].fix[] | capture("^echo (?<n>[0-9]+) >.*memory.max$").n' "$dir/json")"
examine 0

good
config "pool odd: node=0 size=64M page_size=16M"
examine 4
finds error huge-pages "^pool 'odd': this CPU or kernel has no pages of 16M, it has 1G, 2M$" \
	'/mm/hugepages/hugepages-16384kB/nr_hugepages: does not exist' \
	'editor .*# .pool odd. page_size$'

good
config "pool far: node=1 size=64M page_size=2M"
examine 3
finds warning numa "'far' is on node 1, its RDMA device mlx5_0 on node 0" \
	'mlx5_0/device/numa_node: 0' 'node = 0'
device mlx5_1 1 eth1
examine 0
config "pool far: node=1 size=64M page_size=2M devices=mlx5_0"
examine 3
finds warning numa "'far' is on node 1, its RDMA device mlx5_0 on node 0" '' ''
config "pool none: node=5 size=64M page_size=2M"
examine 4
finds error numa "'none' is to be on node 5, which has no memory" 'has_memory: 0-1' ''
jq -e '.errors == 1' "$dir/json" >/dev/null || fail "a node that is missing: $(cat "$dir/text")"

good
put /sys/kernel/mm/transparent_hugepage/shmem_enabled "always within_size advise [never] deny force"
config "pool thp: node=0 size=64M page_size=thp"
examine 4
finds error thp "'thp' gets no transparent huge pages, which it asks for" 'shmem_enabled: never' \
	'^echo advise >/sys/kernel/mm/transparent_hugepage/shmem_enabled$'
for kind in 2048kB 1048576kB; do
	put "/sys/devices/system/node/node0/hugepages/hugepages-$kind/free_hugepages" 0
done
config "pool auto: node=0 size=64M"
examine 0
finds note huge-pages "'auto' gets no huge pages" 'free_hugepages: too few' '^echo 32 >'
finds note thp "'auto' gets no transparent huge pages either" 'shmem_enabled: never' ''

# ---- the configuration ----

good
echo "nonsense = 1" >>"$conf"
examine 4
finds error configuration 'is wrong' 'doctor.conf:[0-9]+: .*nonsense' "^editor $conf"
expect_error 2 "doctor: --root: there is no folder $dir/nowhere" "$RMEMCTL" doctor \
	--root "$dir/nowhere"
expect_error 2 'doctor: it takes no argument but options' "$RMEMCTL" doctor host
rm -r "$root"
mkdir "$root"
"$RMEMCTL" doctor --root "$root" >"$dir/text" || true
grep -q 'no file: the defaults serve' "$dir/text" ||
	fail "without a configuration: $(cat "$dir/text")"
"$RMEMCTL" doctor -q --root "$root" >"$dir/text" || true
! grep -q '^ok' "$dir/text" || fail "--quiet prints what is ok"

# ---- this host ----

live()
{
	"$RMEMCTL" --json doctor -c "$dir/rmemd.conf" >"$dir/json" || [ $? -ge 3 ] ||
		fail "doctor ended with $?"
}
server_start
live
finds ok daemon "rmemd .* runs, pid $server_pid" '' ''
# a pool that the daemon could not add does not have its pages
printf '\n[pool huge]\npage_size = 2M\nsize = 16T\n' >>"$dir/rmemd.conf"
log_mark
kill -HUP "$server_pid"
log_await '^error pool-not-added: .*pool=huge' || fail "the pool is not refused"
live
finds error huge-pages "'huge' needs 8388608 pages of 2M" '' ''
kill -TERM "$server_pid"
process_await "$server_pid" 30 || fail "rmemd did not stop"
[ "$process_status" -eq 0 ] || fail "rmemd ended with status $process_status"
[ "$(grep -c '^error ' "$server_log")" = 1 ] ||
	fail "rmemd logged other errors: $(grep '^error ' "$server_log")"
live
finds note daemon 'rmemd does not run' 'no rmemd serves' '^systemctl start rmemd$'
! jq -e '.findings | any(.check == "ports" and .level != "ok")' "$dir/json" >/dev/null ||
	fail "$(cat "$dir/json")"
[ "$findings" -ge 45 ] || fail "only $findings findings"
echo "$findings findings"
