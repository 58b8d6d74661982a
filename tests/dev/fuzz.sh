#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Fuzz what peers, users and damaged files send, guided by coverage.
#
# usage: ./dev fuzz [--seconds N] [TARGET...]
#
# Builds the targets of tests/fuzz with libFuzzer and sanitizers in build-fuzz, and runs each for N
# seconds (default 60), all or those named, as many at once as there are cores.  A target begins
# with the inputs that it makes, those of tests/fuzz/corpus and regressions, and those that earlier
# runs found, in build-fuzz/corpus.  An input that ends a target is kept in tests/fuzz/regressions,
# where `make check` replays it.  The output of a target is in build-fuzz/fuzz-TARGET.log.
#
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/lib/steps.sh"
# shellcheck source=tests/dev/lib/build.sh
. "$(dirname "$0")/lib/build.sh"
# shellcheck source=tests/dev/lib/results.sh
. "$(dirname "$0")/lib/results.sh"
# shellcheck source=tests/dev/lib/sanitizers.sh
. "$(dirname "$0")/lib/sanitizers.sh"

INPUT_MAX=4096   # bytes
INPUT_SECONDS=20 # an input that takes longer is a fault
BUILD=$TOP/build-fuzz
started=() # targets

targets_list()
{
	basename -a -s .c "$TOP"/tests/fuzz/fuzz-*.c | sed 's/^fuzz-//'
}

# target_start TARGET SECONDS
target_start()
{
	local program=$BUILD/tests/fuzz/fuzz-$1 kept=$TOP/tests/fuzz/regressions/$1
	local found=$BUILD/corpus/$1 seeds=$BUILD/seeds/$1 folders

	rm -rf "$seeds" "$BUILD/fuzz-$1.log"
	mkdir -p "$found" "$seeds"
	timeout 60 "$program" --seeds "$seeds" >/dev/null 2>&1 ||
		die fuzz "$1 cannot write its first inputs"
	mkdir -p "$kept" # the inputs that end the target
	folders=("$found" "$seeds" "$kept")
	[ ! -d "$BUILD/tests/fuzz/corpus/$1" ] || folders+=("$BUILD/tests/fuzz/corpus/$1")
	job_start "fuzz-$1" 1 "$(($2 + 600))" nice "$program" -max_total_time="$2" \
		-max_len="$INPUT_MAX" -timeout="$INPUT_SECONDS" \
		-error_exitcode=1 -print_final_stats=1 -artifact_prefix="$kept/" "${folders[@]}"
}

# log_number TARGET PATTERN: the last number that follows it in the target's log; 0: none
log_number()
{
	local number
	number=$(grep -aoE "$2 *[0-9]+" "$BUILD/fuzz-$1.log" 2>/dev/null | tail -n 1 |
		grep -oE '[0-9]+$')
	echo "${number:-0}"
}

# A line for each target, and the totals.
fuzz_end()
{
	local target runs crashes all_runs=0 all_crashes=0

	tests_stop
	printf '%-12s %14s %10s %10s %8s\n' target executions coverage new crashes >&3
	for target in "${started[@]}"; do
		runs=$(log_number "$target" 'stat::number_of_executed_units:')
		crashes=$(grep -ac 'Test unit written to' "$BUILD/fuzz-$target.log" || true)
		# a target may also end without telling libFuzzer
		grep -aqE '^Done [0-9]+ runs|run interrupted' "$BUILD/fuzz-$target.log" ||
			crashes=$((crashes ? crashes : 1))
		printf '%-12s %14s %10s %10s %8s\n' "$target" "$runs" \
			"$(log_number "$target" ' cov:')" \
			"$(log_number "$target" 'stat::new_units_added:')" "$crashes" >&3
		rmdir --ignore-fail-on-non-empty "$TOP/tests/fuzz/regressions/$target" \
			2>/dev/null || true
		all_runs=$((all_runs + runs)) all_crashes=$((all_crashes + crashes))
	done
	echo "${#started[@]} targets, $all_runs executions, $all_crashes crashes" >&3
}

if help_wanted "$@"; then
	targets_list | sed 's/^/  /'
	exit 0
fi
targets=()
seconds=60
while [ $# -gt 0 ]; do
	case $1 in
	--seconds)
		[[ ${2-} =~ ^[1-9][0-9]{0,8}$ ]] || die fuzz "$1 takes a number from 1"
		seconds=$2
		shift
		;;
	*)
		targets_list | grep -qxF -- "$1" ||
			die fuzz "no target '$1'; see ./dev fuzz --help"
		targets+=("$1")
		;;
	esac
	shift
done
tree_check
setup build test clang
configured CC=clang CFLAGS='-g -O1' \
	--enable-sanitizers="address,undefined,$INTEGERS" --enable-fuzzing
step make make -C "$BUILD" -j"$JOBS" fuzz-targets
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(targets_list)
exec 3>&1
trap fuzz_end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
for target in "${targets[@]}"; do
	started+=("$target")
	target_start "$target" "$seconds"
done
jobs_await
[ "$FAILED" -eq 0 ]
