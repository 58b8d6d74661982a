#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# One side of two machines whose cable loses every packet for a while (a hole):
# blackhole.sh server | client.  Claims:
# - an operation survives a hole that is shorter than its time-out, otherwise it ends by it;
# - the server fences the client in time;
# - a client that ends during a hole is not delayed;
# - nothing is left behind.
# From the mark hole.N to heal.N both machines drop the packets that arrive, not those that leave:
# a device notices at once when its own host drops a packet, and soft-RoCE of 6.12 does not recover
# if that packet was one of rdma_cm.
#   RMEM_ROUNDS   of each kind of hole, default 1
#   SERVER_LINES  more lines of the daemon's section [server]
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh" || exit 1
# shellcheck source=tests/fault/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1

side=$1
rounds=${RMEM_ROUNDS:-1}
kinds=(short long leave)
heartbeat=500ms
fence=2s
fence_ms=2000
grace=120s
LISTEN=${RIG_ADDR:?}
config_extra="[server]
${SERVER_LINES-}"

hole_open()
{
	tc filter add dev eth0 ingress matchall action drop || fail "no tc filter"
}

hole_close()
{
	tc filter del dev eth0 ingress || fail "no tc filter to delete"
}

now_ms()
{
	echo $(($(date +%s%N) / 1000000))
}

server_hole()
{
	local start
	rig-await "hole.$1" 300 || fail "the client does not come to hole $1"
	log_mark
	hole_open
	start=$(now_ms)
	rig-mark "drops.$1"
	log_await '^session-fenced:' 20 || fail "a silent client is not fenced"
	start=$(($(now_ms) - start))
	# the fence time begins at the client's last message, before the hole; a busy machine is
	# late
	[ "$start" -le $((fence_ms * 3)) ] || fail "fenced after $start ms"
	ok "hole $1: fenced after $start ms"
	rig-await "heal.$1" 300 || fail "the client does not end hole $1"
	hole_close
	rig-mark "healed.$1"
}

# client_hole N SECONDS: a hole of this duration
client_hole()
{
	rig-mark "hole.$1"
	rig-await "drops.$1" || fail "the server does not come to hole $1"
	hole_open
	sleep "$2"
}

client_heal()
{
	hole_close
	rig-mark "heal.$1"
	rig-await "healed.$1" || fail "the server does not end hole $1"
}

# A hole shorter than the operations' time-out: none fails.
client_short()
{
	timeout_ms=60000
	load_start
	client_hole "$1" 6
	client_heal "$1"
	load run "$run"
	load check
	load_end
}

# A hole longer than the operations' time-out, but shorter than the session's grace time.
client_long()
{
	timeout_ms=3000
	load_start
	load lenient
	client_hole "$1" 10
	load lenient
	[ "$answer" -gt 0 ] || fail "no operation has ended within the hole"
	client_heal "$1"
	load run "$run"
	# operations that began in the hole have ended by their time-out
	timeout_ms=60000
	load_leave
}

# The program ends during the hole.
client_leave()
{
	local start
	timeout_ms=5000
	load_start
	load lenient
	client_hole "$1" 3
	start=$(now_ms)
	load_leave
	start=$(($(now_ms) - start))
	[ "$start" -le 30000 ] || fail "leaving took $start ms"
	ok "left within $start ms"
	client_heal "$1"
}

tc qdisc add dev eth0 clsact || fail "no clsact"
n=0
if [ "$side" = server ]; then
	server_start
	echo "$port" >/share/port
	rig-mark up
	for ((round = 1; round <= rounds * ${#kinds[@]}; round++)); do
		n=$((n + 1))
		server_hole "$n"
	done
	rig-await finished 300 || fail "the client does not end"
	# the session of a client that ended during a hole exists until its grace time is over
	kill -TERM "$server_pid"
	process_await "$server_pid" 30 || fail "rmemd did not stop within 30 s of SIGTERM"
	[ "$process_status" -eq 0 ] || fail "rmemd ended with status $process_status"
	exit 0
fi
rig-await up 120 || fail "no server"
uri="rmem://${RIG_PEER:?}:$(cat /share/port)?fabric=rdma"
for ((round = 1; round <= rounds; round++)); do
	for kind in "${kinds[@]}"; do
		n=$((n + 1))
		"client_$kind" "$n"
		ok "$kind hole, round $round"
	done
done
rig-mark finished
