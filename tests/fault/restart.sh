#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The daemon is killed at random moments, or is stopped, under a program that reads and writes.
# The next daemon takes over the memory, and the program goes on without a failure or a wrong
# byte.
#   RMEM_ROUNDS  number of restarts, default 10; every third is an orderly stop
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh" || exit 1
# shellcheck source=tests/fault/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

one_thread_with_tsan
state_keep
grace=60s

server_start
make_file "$dir/in" 1000000
client put kept "$dir/in"
load_start
RANDOM=$RMEM_SEED
for ((round = 1; round <= ${RMEM_ROUNDS:-10}; round++)); do
	sleep "0.$((RANDOM % 500 + 100))"
	if ((round % 3 == 0)); then
		server_stop
	else
		kill -KILL "$server_pid"
		process_await "$server_pid" 20 || fail "a killed daemon does not end"
	fi
	server_restart
	load run "$run"
	load check
	grep -q '^session-resumed:' "$server_log" || fail "the session is not resumed"
	ok "restart $round"
done
load_end
client get kept "$dir/out"
same "$dir/in" "$dir/out"
client rm kept
lent_zero 20
server_stop
