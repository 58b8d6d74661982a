#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Six threads of one session make calls with time-outs of 1 to 4 ms.  The daemon is stopped for 6 ms
# of each 26 ms, and killed again and again.  The session is not lost, no byte is wrong, and in the
# end no lease is left and all memory is free.
#   RMEM_SOAK_SECONDS  how long, default 12
#   RMEM_KILL_SECONDS  how long each daemon lives, default 4
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh" || exit 1
need jq

seconds=${RMEM_SOAK_SECONDS:-12}
kill_seconds=${RMEM_KILL_SECONDS:-4}

one_thread_with_tsan
state_keep
grace=60s

# Stop the daemon for 6 ms of each 26 ms, in the background, until it is killed.
stutter_start()
{
	(
		# a pipe that nobody writes to: a pause without a process
		exec 3<> <(:)
		while kill -STOP "$server_pid"; do
			read -r -t 0.006 -u 3 || true
			kill -CONT "$server_pid"
			read -r -t 0.020 -u 3 || true
		done 2>/dev/null
	) &
	stutter_pid=$!
	pids+=("$stutter_pid")
}

stutter_stop()
{
	kill -TERM "$stutter_pid"
	process_await "$stutter_pid" 20 || fail "the daemon is still being stopped"
	kill -CONT "$server_pid"
}

# said WORD: the threads' program prints it as its next step
said()
{
	local line
	while read -r -t $((60 * patience)) -u "$threads_out" line; do
		[ "$line" != "$1" ] || return 0
		echo "$line"
	done
	fail "the threads are not $1: $(cat "$dir/threads.err")"
}

server_start
free_bytes=$(status_get .memory.free_bytes)
coproc THREADS { exec "$(built tests/fault/deadlines)" "$uri" "$RMEM_SEED" 2>"$dir/threads.err"; }
# shellcheck disable=SC2153 # of the coprocess
threads_pid=$THREADS_PID threads_in=${THREADS[1]} threads_out=${THREADS[0]}
pids+=("$threads_pid")
said running

lives=$((seconds / kill_seconds))
for ((life = 1; life <= lives; life++)); do
	stutter_start
	timeout "$kill_seconds" tail -f --pid="$threads_pid" /dev/null &&
		fail "the threads have ended: $(cat "$dir/threads.err")"
	! grep -E '^(error |session-ended:)' "$server_log" || fail "life $life of the daemon"
	[ "$life" -lt "$lives" ] || break
	kill -KILL "$server_pid"
	process_await "$server_pid" 20 || fail "a killed daemon does not end"
	process_await "$stutter_pid" 20 || fail "a killed daemon is still being stopped"
	server_restart
done
stutter_stop
ok "$lives lives of the daemon"

echo end >&"$threads_in"
said settled
# what was undone may be on its way still
status_await '.memory.lent_bytes == 0' 20 || fail "a lease has leaked"
status_await ".memory.free_bytes == $free_bytes" 20 || fail "not all memory is free, of $free_bytes"
[ "$(status_get .sessions.active)" -eq 1 ] || fail "not the one session is left"
echo end >&"$threads_in"
process_await "$threads_pid" 20 || fail "the session is not closed"
[ "$process_status" -eq 0 ] || fail "the threads: $(cat "$dir/threads.err")"
server_stop
