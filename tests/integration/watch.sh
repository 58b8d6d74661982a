#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Notifications between processes: a notice comes after its bytes, a stopped watcher, the tool.
#   RMEM_WATCH_ROUNDS  number of writes with notification, default 4000
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

one_thread_with_tsan
fence=3s
grace=60s
server_start
rounds=${RMEM_WATCH_ROUNDS:-4000}
timeout $(((200 + rounds / 20) * patience)) "$(built tests/integration/watch)" "$uri" "$rounds" ||
	fail "watch: status $?"
lent_zero 20
server_stop

# ---- the tool ----

fence=20s # on a slow machine no client may be fenced
server_start

# watches N: wait until the sessions watch N leases
watches()
{
	poll_await 20 json_is sessions "([.sessions[].watches] | add // 0) == $1" ||
		fail "not $1 watches: $(rmemctl --json sessions)"
}

# tool_ends NAME LINE...: the last client ends with status 0, and has printed these lines
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
tool_ends json '{"event":"notified","value":16,"lost":0}' '{"event":"ended","reason":"freed"}'
client put data "$dir/file"
background interrupted watch data
watches 1
kill -INT "$client_pid"
process_await "$client_pid" 20 || fail "watch does not end when interrupted"
[ "$process_status" -eq 0 ] || fail "an interrupted watch ended with $process_status"
# a watcher that is killed does not affect the others
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

# the last line tells what became of the memory
client put data "$dir/file"
background replaced watch data
watches 1
client put data "$dir/file"
tool_ends replaced 'ended: replaced'
background expired watch data
watches 1
client touch --ttl 100ms data
tool_ends expired 'ended: expired'
# a server that is lost has not ended anything
client put data "$dir/file"
background lost watch data
lost_pid=$client_pid
background lost-json watch --json data
watches 2
kill -KILL "$server_pid"
process_await "$server_pid" 20 || fail "the daemon does not end"
server_restart
for name in lost lost-json; do
	[ "$name" = lost-json ] || swap=$client_pid client_pid=$lost_pid
	process_await "$client_pid" 40 || fail "$name does not end"
	[ "$process_status" -eq 1 ] || fail "$name ended with $process_status"
	grep -q '^rmem: watch: .*session' "$dir/$name.err" ||
		fail "no error: $(cat "$dir/$name.err")"
	client_pid=${swap:-$client_pid}
done
[ "$(tail -n 1 "$dir/lost.out")" = "server lost" ] || fail "$(cat "$dir/lost.out")"
[ "$(tail -n 1 "$dir/lost-json.out")" = '{"event":"server_lost"}' ] ||
	fail "$(cat "$dir/lost-json.out")"
! grep -q ended "$dir/lost.out" "$dir/lost-json.out" || fail "a lost server ended the memory"
ok "$(cat "$dir/lost.err")"
lent_zero 20
server_stop
