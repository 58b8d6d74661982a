#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A server by name, in another network namespace: the addresses of the name are tried side by side,
# and the name is looked up again when the server is away.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib-netns.sh"
need jq nft

state_keep
FABRIC=tcp
far=rmem-far.$$
near=rmem-near.$$
namespaces_add "$far" "$near"
cable "$far" eth0 "$near" eth0 9
# behind a router, so that the resolver leaves their order alone
for host in {1..4}; do
	ip -n "$far" address add "10.8.0.$host/32" dev lo
done
ip -n "$near" route add 10.8.0.0/24 via 10.9.0.1
ip netns exec "$far" nft -f - 2>"$dir/stderr" <<-END || skip "no nftables: $(cat "$dir/stderr")"
	table ip rmem {
		set silent { type ipv4_addr; counter; }
		chain input {
			type filter hook input priority 0
			ip daddr @silent drop
		}
	}
END
netns_exec=(ip netns exec "$far")
client_exec=(ip netns exec "$near")

# silent HOST: packets to this address are dropped, and counted; answering HOST
silent()
{
	ip netns exec "$far" nft add element ip rmem silent "{ 10.8.0.$1 counter }"
}
answering()
{
	ip netns exec "$far" nft delete element ip rmem silent "{ 10.8.0.$1 }"
}

# tried HOST: whether a packet to this silent address was dropped
tried()
{
	ip netns exec "$far" nft -j list set ip rmem silent |
		jq -e --arg host "10.8.0.$1" '[.. | .elem? | objects | select(.val == $host) |
			.counter.packets] | add > 0' >/dev/null
}

# named HOST...: the addresses that memory.example has now
mkdir -p "/etc/netns/$near"
echo "multi on" >"/etc/netns/$near/host.conf"
named()
{
	# the file is mounted: it is written, not replaced
	printf '10.8.0.%s memory.example\n' "$@" >"/etc/netns/$near/hosts"
}

LISTEN=10.8.0.3
server_start
uri="rmem://memory.example:$port?fabric=tcp"

# ---- opening ----

silent 1
silent 2
silent 3
named 1 2 3
background ping --timeout 300s ping -c 1
for host in 1 2 3; do
	poll_await 60 tried "$host" || fail "10.8.0.$host is not tried beside the others"
done
answering 3
process_await "$client_pid" 60 || fail "the client does not end"
[ "$process_status" -eq 0 ] || fail "the client ended with $process_status: $(cat "$dir/ping.err")"
grep -qF "10.8.0.3:$port" "$dir/ping.out" || fail "another server: $(cat "$dir/ping.out")"
ok "three addresses are tried side by side"

named 1 2 4
text="10\.8\.0\.4:$port: connecting: Connection refused"
text+="; 10\.8\.0\.1:$port: no answer within [0-9]+ ms"
text+="; 10\.8\.0\.2:$port: no answer within [0-9]+ ms$"
expect_error 1 "$text" \
	client --timeout 1s ping -c 1
named 4
expect_error 1 "10\.8\.0\.4:$port: connecting: Connection refused$" client ping -c 1
# all the time is told, not what the silent address has left
named 1 3
kill -STOP "$server_pid"
expect_error 1 "10\.8\.0\.3:$port: no answer within 1000 ms; 10\.8\.0\.1:$port: no answer" \
	client --timeout 1s ping -c 1
kill -CONT "$server_pid"

# ---- a server that moves ----

# as a pod that is started again somewhere else, with its state
named 3
mkfifo "$dir/fifo"
make_file "$dir/in" 5000000
background moved put moved "$dir/fifo"
exec 7>"$dir/fifo"
head -c 2000000 "$dir/in" >&7
status_await '.sessions.active == 1' 20 || fail "the put does not start"
server_stop
LISTEN=10.8.0.4
server_config
# it must not hold the end of the pipe
server_restart 7>&-
silent 3
named 4
log_await '^session-resumed:' 60 || fail "the client does not find the server at its other address"
tail -c +2000001 "$dir/in" >&7 || fail "the client has ended: $(cat "$dir/moved.err")"
exec 7>&-
process_await "$client_pid" 60 || fail "the put does not end"
[ "$process_status" -eq 0 ] || fail "the put ended with $process_status: $(cat "$dir/moved.err")"
client get moved "$dir/out"
same "$dir/in" "$dir/out"
ok "a server that has moved"

# ---- a firewall that forgets a flow ----

# of data alone: the control connection lives, and the operation finds another channel in its time
background forgotten put forgotten "$dir/fifo"
exec 7>"$dir/fifo"
head -c 2000000 "$dir/in" >&7
status_await '.sessions.active == 1' 20 || fail "the put does not start"
status_await '.memory.lent_bytes > 7000000' 20 || fail "the put does not start"
for flow in $(ip netns exec "$near" ss -Htn state established dport = $((port + 2)) |
	awk '{ sub(/.*:/, "", $3); print $3 }'); do
	ip netns exec "$far" nft add rule ip rmem input tcp sport "$flow" drop
	forgot=yes
done
[ "${forgot-}" = yes ] || fail "no data connection"
tail -c +2000001 "$dir/in" >&7 || fail "the client has ended: $(cat "$dir/forgotten.err")"
exec 7>&-
process_await "$client_pid" 60 || fail "the put does not end"
[ "$process_status" -eq 0 ] ||
	fail "the put ended with $process_status: $(cat "$dir/forgotten.err")"
grep -q ^session-fenced: "$server_log" && fail "the session was lost"
client get forgotten "$dir/out"
same "$dir/in" "$dir/out"
ok "a flow of data that is forgotten"
server_stop
