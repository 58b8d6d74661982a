# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Functions that drive the program `load`, for the tests that break something under it; sourced
# behind tests/integration/lib.sh.
# shellcheck disable=SC2034,SC2154 # variables of the tests and of that one

run=${RMEM_FAULT_OPERATIONS:-400} # operations between two steps
limit=$((90 * patience))           # seconds for one step
timeout_ms=30000                  # of an operation
cells=()                          # CELL_BYTES CELLS of load, unless its defaults

trap '' PIPE # writing to a load that has ended fails with an error

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
	# some objects are made at their first use
	load check
}

load_tell()
{
	echo "$*" >&"$load_in" || fail "load has ended: $(cat "$dir/load.err")"
}

# load_await COMMAND: wait for its end; `answer` is the number
load_await()
{
	local ok word
	read -r -t "$limit" -u "$load_out" ok word answer || fail "load: no answer to '$*': $(
		cat "$dir/load.err")"
	[ "$ok $word" = "ok $1" ] || fail "load: '$ok $word $answer' after '$*'"
}

load()
{
	load_tell "$@"
	load_await "$@"
}

# It closes without checking.
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
