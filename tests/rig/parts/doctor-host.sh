# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# A good host with soft-RoCE, then hosts with one fault each.
# shellcheck source=tests/rig/guest/doctor-functions
. "${top_srcdir:?}/tests/rig/guest/doctor-functions"
config_write /tmp/rmemd.conf \
	"server: listen=$RIG_ADDR,127.0.0.1 insecure=yes" \
	"limits: channels=8" \
	"pool main: size=64M page_size=base"
doctor=(rmemctl doctor -c /tmp/rmemd.conf)
quiet=("${doctor[@]}" -q)
ulimit -n 20000

server_start /tmp/rmemd.conf
"${doctor[@]}" || [ $? -eq 3 ] || fail "the good host"
rmemctl --json doctor -c /tmp/rmemd.conf >/tmp/doctor.json || true
# no time server has set the clock of the machine
jq -e '[.findings[] | select(.level == "warning" or .level == "error") | .check] == ["clock"]' \
	/tmp/doctor.json >/dev/null || fail "the good host: $(cat /tmp/doctor.json)"
for check in daemon rdma-device rdma-port rdma-address rdma-mtu rdma-files rdma-gsi listen memlock \
	descriptors; do
	says ok "$check" . '' ''
done
says note clients . '' "^rmem doctor rmem://$RIG_ADDR:7460 "

host "the clock is not synchronised" "${quiet[@]}"
says warning clock 'not synchronised' 'adjtimex: STA_UNSYNC' 'timedatectl'

# ---- the client's half ----

uri=rmem://$RIG_ADDR
rmem doctor "$uri" || [ $? -eq 3 ] || fail "rmem doctor"
rmem doctor --json "$uri" >/tmp/doctor.json || true
jq -e '(.probes | length == 2 and all(.[]; .works))
	and (.probes[0] | .fabric == "rdma" and .device == "rxe0" and (.steps | length == 9))' \
	/tmp/doctor.json >/dev/null || fail "rmem doctor: $(cat /tmp/doctor.json)"

ip link set dummy0 carrier off
host "the interface has no carrier" "${quiet[@]}"
says warning rdma-port 'rxe0, port 1 is not active' 'dummy0/carrier: 0' '^ethtool dummy0'
ip link set dummy0 carrier on
heals rdma-port

# ---- ports ----

ip link set dummy0 down
host "the interface is down" "${quiet[@]}"
says warning rdma-port 'rxe0, port 1 is not active' 'dummy0/flags: .*is not up' \
	'^ip link set dev dummy0 up$'
host "the interface is down, for clients" rmem doctor -q --timeout 4s rmem://127.0.0.1
says warning rdma-port 'rxe0, port 1 is not active' 'dummy0/flags' '^ip link set dev dummy0 up$'
says warning server "over rdma the step .channel. fails" 'RDMA cannot be used' 'rmemctl doctor'
says ok server 'works over tcp' '' ''
host "the interface is down, for clients that ask for RDMA" rmem doctor -q --timeout 4s \
	"rmem://127.0.0.1?fabric=rdma"
says error server "over rdma the step .channel. fails" 'RDMA cannot be used' ''
rmemctl --json doctor -c /tmp/rmemd.conf >/tmp/doctor.json || true
fixes rdma-port
heals rdma-port

ip address del "$RIG_ADDR/24" dev dummy0
host "the interface has no IPv4 address" "${quiet[@]}"
says warning rdma-address 'no IPv4 address' 'ports/1/gids: no GID' 'ip address add .* dev dummy0'
ip address add "$RIG_ADDR/24" dev dummy0
heals rdma-address

ip link set dummy0 mtu 1500
host "the MTU of the interface is 1500" "${quiet[@]}"
says note rdma-mtu 'limits that of RDMA to 1024' 'dummy0/mtu: 1500' 'dummy0 mtu 4200'
fixes rdma-mtu
says note rdma-mtu . '' ''
heals rdma-mtu
says ok rdma-mtu 'MTU 4096' '' ''
ip link set dummy0 mtu 9000

# ---- limits ----

server_stop
sed -i 's/^channels = 8$/channels = 128/' /tmp/rmemd.conf
server_start /tmp/rmemd.conf
host "few descriptors for [limits]" "${quiet[@]}"
says warning descriptors 'only 20000 descriptors' "/proc/$SERVER_PID/limits: RLIMIT_NOFILE 20000" \
	'LimitNOFILE='
server_stop
sed -i 's/^channels = 128$/channels = 8/' /tmp/rmemd.conf
# not as root, who may lock all
install -d -o nobody /tmp/nobody
sed "s,^socket = .*,socket = /tmp/nobody/admin.sock," /tmp/rmemd.conf >/tmp/nobody.conf
limited=(setpriv --reuid=nobody --regid=nogroup --clear-groups -- \
	"${quiet[@]:0:2}" -q -c /tmp/nobody.conf)
host "8 MiB of memory may be locked" prlimit --memlock=8388608:8388608 "${limited[@]}"
says error memlock 'only 8 MiB.* need 64 MiB' '/proc/self/limits: RLIMIT_MEMLOCK 8388608' \
	'ulimit -l unlimited'

# ---- the daemon ----

busybox nc -l -p 7462 </dev/null >/tmp/nc.out 2>&1 &
nc=$!
await 20 bash -c "ss -Hltn 'sport = :7462' | grep -q 7462" ||
	fail "nc does not listen: $(cat /tmp/nc.out)"
host "another program has a port of the daemon" "${quiet[@]}"
says error ports 'nc has TCP port 7462 of \[tcp\]|busybox has TCP port 7462 of \[tcp\]' \
	'/proc/net/tcp6?: .*7462' 'ss -ltnp'
kill "$nc"
wait "$nc" 2>/dev/null

sed 's/^listen = .*/listen = 127.0.0.1/' /tmp/rmemd.conf >/tmp/local.conf
host "the daemon listens on the loopback only" rmemctl doctor -q -c /tmp/local.conf
says warning listen 'RDMA is not served' 'listen = 127.0.0.1' ''
says note daemon 'rmemd does not run' 'no rmemd serves' 'systemctl start rmemd'

ip netns add other
ip -n other link set lo up
ip netns exec other rmemd --config /tmp/local.conf >/tmp/rmemd.log 2>&1 &
SERVER_PID=$!
await 60 admin status >/tmp/out 2>&1 || fail "rmemd does not start: $(cat /tmp/rmemd.log)"
host "the daemon is in another network namespace" "${quiet[@]}"
says warning daemon 'another network namespace' "/proc/$SERVER_PID/ns/net" 'nsenter -t'
server_stop
ip netns del other

echo 'no_such_key = 1' >>/tmp/local.conf
host "the configuration is wrong" rmemctl doctor -q -c /tmp/local.conf
says error configuration 'is wrong' 'local.conf:[0-9]+: .*no_such_key' 'editor'

# ---- files and modules ----

chmod 600 /dev/infiniband/rdma_cm /dev/infiniband/uverbs0
host "only root may open the devices" "${limited[@]}"
says warning rdma-files 'rdma_cm cannot be opened' 'Permission denied' \
	'chmod 0666 /dev/infiniband/rdma_cm'
says warning rdma-files 'uverbs0 cannot be opened' 'Permission denied' ''
chmod 666 /dev/infiniband/rdma_cm /dev/infiniband/uverbs0

# in_container COMMAND...: without /dev/infiniband, as a container that was not given it
in_container()
{
	unshare -m bash -c 'mount -t tmpfs none /dev/infiniband && mount -t tmpfs none /run &&
		touch /run/.containerenv && exec "$@"' container "$@"
}
host "a container without /dev/infiniband" in_container "${quiet[@]}"
says warning rdma-files 'uverbs0 is missing: this container \(podman\)' 'uverbs0: exists' \
	'podman run --device=/dev/infiniband'
says warning rdma-files 'rdma_cm is missing: this container' '' ''

rmmod rdma_ucm || fail rmmod
host "the module of the connection manager is not loaded" "${quiet[@]}"
says warning rdma-files 'rdma_ucm is not loaded' 'misc/rdma_cm: does not exist' '^modprobe rdma_ucm'
fixes rdma-files
await 20 [ -e /dev/infiniband/rdma_cm ] || fail "no rdma_cm"
heals rdma-files

# ---- the queue pair of rdma_cm ----

# a connection request that finds no route leaves it in ERR
server_start /tmp/rmemd.conf
timeout 60 rping -s -a "$RIG_ADDR" -p 9999 >/tmp/rping-server 2>&1 &
server=$!
await 20 bash -c 'rdma resource show cm_id | grep -q 9999' || fail "rping does not listen"
rping -c -a "$RIG_ADDR" -p 9999 -C 1000000 -S 64 >/tmp/rping-client 2>&1 &
client=$!
await 20 bash -c 'rdma resource show cm_id | grep -q "state CONNECT"' ||
	fail "rping does not connect"
ip route flush table local dev dummy0
ip route add unreachable "$RIG_ADDR"
kill "$client"
wait "$client" 2>/dev/null
gsi_failed()
{
	rdma resource show qp | grep -q 'type GSI state ERR'
}
await 20 gsi_failed || fail "the queue pair of rdma_cm still works: $(rdma resource show qp)"
ip route del unreachable "$RIG_ADDR"
ip link set dummy0 down
ip link set dummy0 up
kill "$server" 2>/dev/null
wait "$server" 2>/dev/null
host "the queue pair of rdma_cm is in ERR" "${quiet[@]}"
says warning rdma-gsi 'can make no connections' 'state ERR' \
	'^rdma link delete rxe0; rdma link add rxe0 type rxe netdev dummy0$'
server_stop
fixes rdma-gsi
await 20 [ -e /dev/infiniband/uverbs0 ] || fail "the device does not come back"
heals rdma-gsi rdma-files

# ---- no device ----

rdma link delete rxe0
sed 's/^\[limits\]/[rdma]\nenabled = yes\n&/' /tmp/rmemd.conf >/tmp/rdma.conf
host "no RDMA device" rmemctl doctor -q -c /tmp/rdma.conf
says error rdma-device 'has no RDMA device' 'infiniband: is empty' 'rdma link add rxe0'
sed 's/^\[limits\]/[rdma]\ndevices = rxe0, rxe7\n&/' /tmp/rmemd.conf >/tmp/rdma.conf
rdma link add rxe0 type rxe netdev dummy0 || fail "no device"
host "a device that the configuration names is missing" rmemctl doctor -q -c /tmp/rdma.conf
says error rdma-device 'rxe7.*is missing' '' 'rdma link'
echo "$broken broken hosts"
