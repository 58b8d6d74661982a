# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# RDMA devices, and addresses, that are not there when rmemd starts: it waits for them, says so, and
# serves them once they are there; and again when an address was gone meanwhile.
head -c 4M /dev/urandom >/tmp/file

# transfer ADDRESS: a client uses RDMA there
transfer()
{
	local uri="rmem://$1?fabric=rdma"
	rmem -s "$uri" put file /tmp/file || fail put
	rmem -s "$uri" get file - | cmp - /tmp/file || fail get
	rmem -s "$uri" rm file || fail rm
}

# rdma_status FILTER: of the status
rdma_status()
{
	admin --json status | jq -e ".fabrics.rdma | $1" >/dev/null || fail "$(admin status)"
}

log_has()
{
	[ "$(grep -c "$1" /tmp/rmemd.log)" = "$2" ]
}

# log_await TEXT COUNT: wait until the log has so many lines of it
log_await()
{
	await 60 log_has "$1" "$2" || fail "$(cat /tmp/rmemd.log)"
}

echo "-- no device, no rdma_cm and no address"
rdma link delete rxe0 || fail "rxe0 stays"
ip addr del "$RIG_ADDR/24" dev dummy0 || fail "the address stays"
modprobe -r rdma_ucm || fail "rdma_ucm stays"
config_write /tmp/rmemd.conf \
	"server: listen=$RIG_ADDR insecure=yes" \
	"rdma: enabled=yes" \
	"pool main: size=16M devices=rxe0"
server_start /tmp/rmemd.conf
cat /tmp/rmemd.log
grep -q 'endpoint-awaited: rdma: an RDMA device is waited for: ' /tmp/rmemd.log ||
	fail "no line says it"
rdma_status '(.serving | not) and .awaited
	and .why == "its device, or the address of that, is not there"'
expect_device '.device == null and .address == null and .can == null'
admin devices || fail devices

echo "-- the address alone"
ip addr add "$RIG_ADDR/24" dev dummy0 || fail "no address"
await 60 rmem -s "rmem://$RIG_ADDR?fabric=tcp" ls || fail "TCP is not served"
! rmem -s "rmem://$RIG_ADDR?fabric=rdma" put file /tmp/file 2>/tmp/err ||
	fail "RDMA without a device"
cat /tmp/err
grep -q 'the server waits for its RDMA device, or for the address of that' /tmp/err ||
	fail "the client is not told"

echo "-- the device"
modprobe rdma_ucm || fail rdma_ucm
rdma link add rxe0 type rxe netdev dummy0 || fail "no device"
log_await "endpoint-news: rdma: RDMA device rxe0 serves now, at $RIG_ADDR:7461" 1
rdma_status '.serving and (.awaited | not) and .why == null'
expect_device \
	".device == \"rxe0\" and .address == \"$RIG_ADDR\" and .device_port.state == \"active\""
transfer "$RIG_ADDR"

echo "-- the address is gone, and back"
ip addr del "$RIG_ADDR/24" dev dummy0 || fail "the address stays"
log_await 'has lost the address' 1
rdma_status '(.serving | not) and .awaited'
expect_device '.device == "rxe0" and .address == null'
ip addr add "$RIG_ADDR/24" dev dummy0 || fail "no address"
log_await "serves now, at $RIG_ADDR:7461" 2
rdma_status .serving
transfer "$RIG_ADDR"
server_stop

echo "-- a device that is named, on a host that has another"
config_write /tmp/rmemd.conf \
	"server: listen=$RIG_ADDR,10.19.0.1 insecure=yes" \
	"rdma: devices=rxe0,rxe9" \
	"pool main: size=16M"
server_start /tmp/rmemd.conf
grep -q 'endpoint-awaited: rdma: RDMA device rxe9 is waited for: ' /tmp/rmemd.log ||
	fail "no line says it"
rdma_status .serving
transfer "$RIG_ADDR"
admin devices | grep -q '^rxe9: is not there$' || fail "$(admin devices)"
ip link add dummy9 type dummy || fail "no network"
ip link set dummy9 mtu 9000 up || fail "no network"
rdma link add rxe9 type rxe netdev dummy9 || fail "no device"
ip addr add 10.19.0.1/24 dev dummy9 || fail "no address"
log_await 'RDMA device rxe9 serves now, at 10.19.0.1:7461' 1
sent=$(packets rxe9)
transfer 10.19.0.1
[ "$(($(packets rxe9) - sent))" -gt 1000 ] || fail "the packets do not go through rxe9"
server_stop
rdma link delete rxe9 || fail "rxe9 stays"
ip link del dummy9 || fail "dummy9 stays"
