#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Notifications between processes: bytes before notices, a watcher that is stopped, the tool.
#   RMEM_WATCH_ROUNDS  writes with notification
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

one_thread_if_watched
fence=3s
grace=60s
server_start
rounds=${RMEM_WATCH_ROUNDS:-4000}
timeout $(((200 + rounds / 20) * patience)) "$(built tests/integration/watch)" "$uri" "$rounds" ||
	fail "watch: status $?"
lent_zero 20
server_stop

# ---- the tool: no client has to be fenced, however slow the machine is ----

fence=20s
server_start

# watches N: until the sessions watch so many leases
watches()
{
	local end=$((SECONDS + 20 * patience))
	until rmemctl --json sessions |
		jq -e --argjson n "$1" '([.sessions[].watches] | add // 0) == $n' >/dev/null; do
		[ "$SECONDS" -lt "$end" ] || fail "not $1 watches: $(rmemctl --json sessions)"
		sleep 0.1
	done
}

# tool_ends NAME PATTERN...: the last client ends with status 0, and its lines are these
tool_ends()
{
	local name=$1
	shift
	process_await "$client_pid" 20 || fail "$name does not end"
	[ "$process_status" -eq 0 ] ||
		fail "$name ended with $process_status: $(cat "$dir/$name.err")"
	printf '%s\n' "$@" | diff - "$dir/$name.out" || fail "$name printed other lines"
	ok "$name: $(tr '\n' ' ' <"$dir/$name.out")"
}

make_file "$dir/file" 5000
client put data "$dir/file"
background text watch -c 2 data
watches 1
client notify data 7
client notify data 4294967295
tool_ends text 7 4294967295
background json watch --json data
watches 1
client notify data 16
client rm data
tool_ends json '{"event":"notified","value":16,"lost":0}' '{"event":"ended"}'
client put data "$dir/file"
background interrupted watch data
watches 1
kill -INT "$client_pid"
process_await "$client_pid" 20 || fail "watch does not end when interrupted"
[ "$process_status" -eq 0 ] || fail "an interrupted watch ended with $process_status"
# one that is killed, and one that is not there, cost the others nothing
background killed watch data
background alive watch -c 1 data
watches 2
kill -KILL "${pids[-2]}"
process_await "${pids[-2]}" 20 || fail "a killed watch does not end"
client notify data 5
tool_ends alive 5
client notify data 6
expect_error 1 'no lease named' client watch missing
expect_error 1 'no lease named' client notify missing 1
expect_error 2 'VALUE' client notify data 4294967296
expect_error 2 'VALUE' client notify data x
expect_error 2 'NAME' client watch
expect_error 2 'NAME' client notify data
client rm data
lent_zero 20
server_stop
