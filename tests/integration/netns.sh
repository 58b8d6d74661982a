#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Daemon and client in two network namespaces with a cable between them: over IPv4 and IPv6; with
# the cable pulled for longer than the fence time and for longer than the grace time; with an
# address that the host gets late; and with a silent name server.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib-netns.sh"
need jq

FABRIC=tcp
LISTEN=10.9.0.1
far=rmem-far.$$
near=rmem-near.$$
namespaces_add "$far" "$near"
cable "$far" eth0 "$near" eth0 9
netns_exec=(ip netns exec "$far")
client_exec=(ip netns exec "$near")

link()
{
	ip -n "$far" link set eth0 "$1"
}

heartbeat=200ms
fence=1s
grace=20s
LISTEN="10.9.0.1, fd09::1"
ports_choose
server_config
LISTEN=10.9.0.1
server_restart

make_file "$dir/in" 5000000
client put name "$dir/in"
client get name "$dir/out"
same "$dir/in" "$dir/out"
ok "IPv4"
uri="rmem://[fd09::1]:$port?fabric=tcp"
client put six "$dir/in"
client get six "$dir/out"
same "$dir/in" "$dir/out"
uri="rmem://$LISTEN:$port?fabric=tcp"
ok "IPv6"

# the cable is pulled during a transfer, for longer than the fence time
mkfifo "$dir/fifo"
background cut put cut "$dir/fifo"
exec 7>"$dir/fifo"
head -c 2000000 "$dir/in" >&7
status_await '.sessions.active == 1' 20 || fail "the put does not start"
link down
log_await '^session-fenced:' || fail "the client was not fenced"
link up
log_await '^session-resumed:' 20 || fail "the client did not come back"
tail -c +2000001 "$dir/in" >&7 || fail "the client has ended: $(cat "$dir"/*.err)"
exec 7>&-
process_await "$client_pid" 60 || fail "the put does not end"
[ "$process_status" -eq 0 ] || fail "the put ended with $process_status: $(cat "$dir/cut.err")"
client get cut "$dir/out"
same "$dir/in" "$dir/out"
ok "cable pulled and restored"
server_stop

# the cable is pulled for longer than the grace time: the memory is reclaimed.  Over IPv4, because
# the kernel has removed the IPv6 addresses of the link that was down
grace=1s
server_config
server_restart
background lost put lost "$dir/fifo"
exec 7>"$dir/fifo"
head -c 2000000 "$dir/in" >&7
status_await '.memory.lent_bytes > 0' 20 || fail "the put does not start"
link down
lent_zero 20
status_await '.sessions.active == 0' 20 || fail "the session still exists"
link up
# the kernel needs time to resolve the neighbour's address
answers()
{
	client ping -c 1 >/dev/null 2>&1
}
poll_await 20 answers || fail "the server is not reachable again"
exec 7>&-
process_await "$client_pid" 60 || fail "a client that lost its session does not end"
[ "$process_status" -eq 1 ] || fail "a client that lost its session ended with $process_status"
[ "$(wc -l <"$dir/lost.err")" -eq 1 ] || fail "not one line: $(cat "$dir/lost.err")"
ok "lost: $(cat "$dir/lost.err")"
client put name "$dir/in"
client rm name
lent_zero 20
server_stop

# an address that comes after the daemon: it waits for it
LISTEN="10.9.0.3, fd09::3"
config_extra="[metrics]
listen = 10.9.0.3:9746"
server_config
LISTEN=10.9.0.3
server_restart
for key in server metrics; do
	grep -q "^address-missing: \[$key\] listen: this host does not have the address $LISTEN; " \
		"$server_log" || fail "$(cat "$server_log")"
done
client --timeout 1s ping -c 1 2>"$dir/err" && fail "a host without the address answers"
ip -n "$far" address add "$LISTEN/24" dev eth0
ip -n "$far" address add fd09::3/64 dev eth0 nodad
# the client's host remembers for a moment that nobody had it
ip -n "$near" neighbour flush dev eth0
uri="rmem://[fd09::3]:$port?fabric=tcp" client put name "$dir/in"
client get name "$dir/out"
same "$dir/in" "$dir/out"
"${client_exec[@]}" bash -c "exec 3<>/dev/tcp/$LISTEN/9746 &&
	printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 &&
	cat <&3" | grep ^rmemd_build_info >/dev/null ||
	fail "no metrics"
server_stop
ok "an address that comes later"

# a name server that never answers: packets to its link address arrive nowhere.  The resolver itself
# would wait for 150 s
mkdir -p "/etc/netns/$near"
printf 'nameserver 10.9.0.53\noptions timeout:30 attempts:5\n' >"/etc/netns/$near/resolv.conf"
ip -n "$near" neighbour add 10.9.0.53 lladdr 02:00:00:00:00:53 dev eth0
uri=rmem://memory.example
client --timeout 1s ping -c 1 >"$dir/out" 2>"$dir/err" &&
	fail "a name without an address is reached"
grep -q 'resolving memory.example: the name servers do not answer' "$dir/err" ||
	fail "the error is: $(cat "$dir/err")"
ok "silent name server: $(cat "$dir/err")"
