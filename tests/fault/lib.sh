# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Functions that control the program `load`; sourced after tests/integration/lib.sh.
# shellcheck disable=SC2034,SC2154 # variables of the tests and of that file

run=${RMEM_FAULT_OPERATIONS:-400} # operations between two steps
limit=$((90 * patience))           # seconds for one step
timeout_ms=30000                  # of an operation
cells=()                          # arguments CELL_BYTES CELLS of load; empty: its defaults

trap '' PIPE # a write to a load that has ended fails instead of killing the script

load_start()
{
	coproc LOAD { exec "$(built tests/fault/load)" "$uri" \
		"$RMEM_SEED" "$timeout_ms" "${cells[@]}" 2>"$dir/load.err"; }
	# shellcheck disable=SC2153 # of the coprocess
	load_pid=$LOAD_PID
	load_in=${LOAD[1]}
	load_out=${LOAD[0]}
	pids+=("$load_pid")
	load run "$run"
	# some objects are created at their first use
	load check
}

load_send()
{
	echo "$*" >&"$load_in" || fail "load has ended: $(cat "$dir/load.err")"
}

# load_await COMMAND: wait until it is done; sets `answer` to its number
load_await()
{
	local ok word
	read -r -t "$limit" -u "$load_out" ok word answer || fail "load: no answer to '$*': $(
		cat "$dir/load.err")"
	[ "$ok $word" = "ok $1" ] || fail "load: '$ok $word $answer' after '$*'"
}

load()
{
	load_send "$@"
	load_await "$@"
}

# End the load without a check of its lease.
load_leave()
{
	load leave
	load_end
}

load_end()
{
	exec {load_in}>&-
	process_await "$load_pid" 90 || fail "the load does not end"
	[ "$process_status" -eq 0 ] || fail "load: status $process_status: $(cat "$dir/load.err")"
}
