# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The load under which things break, for those who break them; sourced behind
# tests/integration/lib.sh.
# shellcheck disable=SC2034,SC2154 # variables of the tests and of that one

run=${RMEM_FAULT_OPERATIONS:-400} # operations from one step to the next
limit=90                          # seconds for one step
timeout_ms=30000                  # of an operation
cells=()                          # load's CELL_BYTES CELLS, if others than it has by itself

trap '' PIPE # who talks to a load that has ended is told by the error

load_start()
{
	coproc LOAD { exec "$top_builddir/tests/fault/load" "$uri" \
		"${RMEM_SOAK_SEED:-$RANDOM}" "$timeout_ms" "${cells[@]}" 2>"$dir/load.err"; }
	# shellcheck disable=SC2153 # of the coprocess
	load_pid=$LOAD_PID
	load_in=${LOAD[1]}
	load_out=${LOAD[0]}
	pids+=("$load_pid")
	load run "$run"
	# some things are made when they are first used
	load check
}

load_tell()
{
	echo "$*" >&"$load_in" || fail "load: is gone: $(cat "$dir/load.err")"
}

# load_await COMMAND: until it is done; `answer` is the number
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

# It lets everything be, and closes.
load_leave()
{
	load leave
	load_end
}

load_end()
{
	exec {load_in}>&-
	process_await "$load_pid" "$limit" || fail "the load does not end"
	[ "$process_status" -eq 0 ] || fail "load: status $process_status: $(cat "$dir/load.err")"
}
