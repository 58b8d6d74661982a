#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The daemon is stopped for longer than the fence time.  Sessions whose heartbeats wait in its
# sockets are not fenced, however many they are.  Clients that connect several times meanwhile
# resume their sessions once.  The fence time begins when a heartbeat arrives, not when the daemon
# goes on and reads it.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh" || exit 1
need jq

sessions=900
fence=4s
pause=9 # seconds: the client gives up an attempt after 2 s
grace=60s
server_start
make_file "$dir/in" 4000000

coproc PAUSED { exec "$(built tests/fault/paused)" "$LISTEN" "$port" "$sessions" \
	2>"$dir/paused.err"; }
# shellcheck disable=SC2153 # of the coprocess
pids+=("$PAUSED_PID")
exec 8<&"${PAUSED[0]}" 9>&"${PAUSED[1]}"
said()
{
	local word
	read -r -t $((60 * patience)) -u 8 word || word=nothing
	[ "$word" = "$1" ] || fail "paused: $word, not $1: $(cat "$dir/paused.err")"
}
said open

mkfifo "$dir/fifo"
background put put name "$dir/fifo"
exec 7>"$dir/fifo"
head -c 2000000 "$dir/in" >&7
status_await '.memory.lent_bytes > 0' 20 || fail "the put does not start"

kill -STOP "$server_pid"
echo resume >&9
said sent
sleep "$pause"
kill -CONT "$server_pid"
said resumed
tail -c +2000001 "$dir/in" >&7 || fail "the put has ended: $(cat "$dir/put.err")"
exec 7>&-
process_await "$client_pid" 30 || fail "the put does not end"
[ "$process_status" -eq 0 ] || fail "the put: $(cat "$dir/put.err")"
client get name "$dir/out"
same "$dir/in" "$dir/out"
ok "a put went on after a pause of the daemon"

fenced=$(status_get .counters.sessions_fenced)
resumed=$(status_get .counters.sessions_resumed)
active=$(status_get .sessions.active)
ok "$fenced fenced, $resumed resumed, $active active"
[ "$active" -eq "$sessions" ] || fail "not all sessions are active"
[ "$fenced" -eq 2 ] || fail "not only the two sessions that lost their connections were fenced"
[ "$resumed" -eq 2 ] || fail "the two sessions did not resume once each"

background put put other "$dir/fifo"
exec 7>"$dir/fifo"
status_await ".sessions.active == $((sessions + 1))" 20 || fail "the put has no session"
kill -STOP "$server_pid"
sleep 1.2
kill -STOP "$client_pid"
# the fence time is over before the heartbeats are read
sleep 5
log_mark
kill -CONT "$server_pid"
client touch --ttl 1s name
log_await '^session-fenced: .*no sign of life|^lease-expired:' || fail "neither comes"
tail -n "+$log_from" "$server_log" | grep '^session-fenced: .*no sign of life' >/dev/null ||
	fail "the stopped client is not fenced at once: counted from when the daemon went on"
ok "a heartbeat counts from its arrival"
kill -KILL "$client_pid"
exec 7>&-

paused_pid=$PAUSED_PID
eval "exec 8<&- 9>&- ${PAUSED[0]}<&- ${PAUSED[1]}>&-"
process_await "$paused_pid" 30 || fail "paused does not end"
[ "$process_status" -eq 0 ] || fail "$(cat "$dir/paused.err")"
server_stop
