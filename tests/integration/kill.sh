#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Clients and daemons that are killed or stopped during transfers: other clients go on, no memory
# stays lent, and a client of a dead daemon ends in bounded time.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq

heartbeat=200ms
fence=1s
grace=3s
pool_size=320M
server_start
make_file "$dir/in" 4000000
mkfifo "$dir/fifo"

# fifo_put NAME: start a put from a pipe that has sent a part; file descriptor 7 is the pipe
fifo_put()
{
	local before
	before=$(status_get .memory.lent_bytes)
	background "$1" put "$1" "$dir/fifo"
	exec 7>"$dir/fifo"
	head -c 2000000 "$dir/in" >&7
	status_await ".memory.lent_bytes > $before" 20 || fail "the put of $1 does not start"
}

# ---- a client is killed ----

client put kept "$dir/in"
kept=$(status_get .memory.lent_bytes)
fifo_put killed
log_mark
kill -KILL "$client_pid"
log_await '^session-fenced:' || fail "a killed client was not fenced"
exec 7>&-
status_await ".memory.lent_bytes == $kept and .sessions.active + .sessions.fenced == 0" 20 ||
	fail "memory of a killed client is still lent"
ok "client killed in a put"

background bench bench --op write --duration 60s --depth 8 --region 8M
status_await '.memory.lent_bytes > 8000000' 20 || fail "bench does not start"
kill -KILL "$client_pid"
status_await ".memory.lent_bytes == $kept and .sessions.active + .sessions.fenced == 0" 20 ||
	fail "memory of a killed bench is still lent"
client get kept "$dir/out"
same "$dir/in" "$dir/out"
ok "client killed during writes"

# ---- a client is stopped for longer than the fence time, and continued ----

fifo_put stopped
log_mark
kill -STOP "$client_pid"
log_await '^session-fenced:' || fail "a stopped client was not fenced"
kill -CONT "$client_pid"
tail -c +2000001 "$dir/in" >&7 || fail "the client has ended: $(cat "$dir"/*.err)"
exec 7>&-
process_await "$client_pid" 30 || fail "a client that was stopped does not end"
[ "$process_status" -eq 0 ] ||
	fail "a client that was stopped ended with $process_status: $(cat "$dir/stopped.err")"
client get stopped "$dir/out"
same "$dir/in" "$dir/out"
grep -q '^session-resumed:' "$server_log" || fail "the session was not resumed"
client rm stopped
ok "client stopped and continued"

# ---- the daemon is stopped while clients are busy ----

# client_ends NAME: the client ends in time with status 1 and one line
client_ends()
{
	local name=$1
	process_await "$client_pid" 40 || fail "$name: the client does not end"
	[ "$process_status" -eq 1 ] ||
		fail "$name: the client ended with $process_status: $(cat "$dir/$name.err")"
	[ "$(wc -l <"$dir/$name.err")" -eq 1 ] || fail "$name: $(cat "$dir/$name.err")"
	grep -qE "^rmem: (bench|put): .+" "$dir/$name.err" ||
		fail "$name: $(cat "$dir/$name.err")"
	ok "$name: $(cat "$dir/$name.err")"
}

background term bench --op read --duration 60s --depth 8 --region 8M
status_await '.memory.lent_bytes > 8000000' 20 || fail "bench does not start"
server_stop
client_ends term
server_restart

# ---- the daemon is killed while clients are busy ----

# server_kill NAME: kill the daemon; the client ends, and a new daemon serves on these ports
server_kill()
{
	kill -KILL "$server_pid"
	process_await "$server_pid" 20 || fail "a killed daemon does not end"
	client_ends "$1"
	exec 7>&-
	server_restart
	client put again "$dir/in"
	client get again "$dir/out"
	same "$dir/in" "$dir/out"
	client rm again
}

background killbench bench --op write --duration 60s --depth 8 --region 8M
status_await '.memory.lent_bytes > 8000000' 20 || fail "bench does not start"
server_kill killbench

fifo_put killput
server_kill killput

lent_zero 20
server_stop
