#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A client is told that its server stops, and goes on with the next one.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

state_keep

server_start
coproc DRAIN { exec "$(built tests/integration/drain)" "$uri" 2>"$dir/drain.err"; }
# shellcheck disable=SC2153 # of the coprocess
drain_pid=$DRAIN_PID
pids+=("$drain_pid")
exec 8<&"${DRAIN[0]}" 9>&"${DRAIN[1]}"

at_step()
{
	local word
	read -r -t $((70 * patience)) -u 8 word || word=nothing
	[ "$word" = "$1" ] || fail "$word, not $1: $(cat "$dir/drain.err")"
	ok "$1"
	echo >&9
}

at_step open
server_stop
at_step draining
server_restart
at_step resumed
process_await "$drain_pid" 30 || fail "the client does not end"
[ "$process_status" -eq 0 ] || fail "the client: $(cat "$dir/drain.err")"
lent_zero 20
server_stop
