#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A program of one thread with one poll loop makes all calls without waiting: many at a time beside
# a stream of reads, while the server is killed, and with calls that are cancelled at any time; then
# under TLS.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

program=$(built tests/integration/calls)
heartbeat=200ms
fence=2s
grace=30s

state_keep
server_start

# nothing_left: no session is left, and no lease
nothing_left()
{
	status_await '.sessions.active + .sessions.fenced == 0' 20 || fail "sessions are left"
	lent_zero 20
}

timeout $((60 * patience)) "$program" "$uri" many || fail "status $?"
nothing_left
ok "many at a time, beside a stream"

coproc LOST { timeout $((120 * patience)) "$program" "$uri" lost; }
pid=$LOST_PID
exec 3<&"${LOST[0]}" 4>&"${LOST[1]}"
read -r line <&3
[ "$line" = begun ] || fail "'$line'"
for _ in 1 2 3; do
	kill -KILL "$server_pid"
	process_await "$server_pid" 10 || fail "rmemd is not killed"
	server_restart
done
read -r line <&3
[ "$line" = "done" ] || fail "'$line'"
echo >&4
wait "$pid" || fail "status $?"
nothing_left
ok "the server was killed"

timeout $((120 * patience)) "$program" "$uri" random 300 || fail "status $?"
nothing_left
ok "cancelled at any time"
server_stop

tls_by_psk
server_start
timeout $((60 * patience)) "$program" "$uri" many || fail "under TLS: status $?"
nothing_left
timeout $((120 * patience)) "$program" "$uri" random 100 || fail "random, under TLS: status $?"
nothing_left
ok "under TLS"
server_stop
