# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests and their totals: `make check`, and jobs that run in parallel.  The totals are the last
# line, also after a signal.
PASSED=0
FAILED=0
SKIPPED=0
REASONS=()
CHILD=

CHECK_JOBS=$((2 * JOBS + 1)) # of `make check`, whose tests often wait
CHECK_SECONDS=1800           # limit of `make check`

CORES_FREE=$JOBS
declare -A JOB_NAME=() JOB_START=() JOB_CORES=() # of the running jobs, by process id

# Stop the running tests.
tests_stop()
{
	local pid
	for pid in $CHILD "${!JOB_NAME[@]}"; do
		kill -TERM "$pid" 2>/dev/null || true
	done
	for pid in $CHILD "${!JOB_NAME[@]}"; do
		wait "$pid" 2>/dev/null || true
	done
}

tests_end()
{
	tests_stop
	echo "$PASSED passed, $FAILED failed, $SKIPPED skipped" >&3
}

# Called first by every command that runs tests.  A command that ends before its tests counts as one
# failure.
tests_begin()
{
	tree_check
	exec 3>&1 # for the totals, in case a signal comes while standard output is redirected
	trap tests_end EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	FAILED=1
}

# Print why tests were skipped, and the time; fail if a test has failed.
tests_result()
{
	if [ ${#REASONS[@]} -gt 0 ]; then
		printf 'skipped    %s\n' "${REASONS[@]}"
	fi
	say "$COMMAND" "took $SECONDS s"
	[ "$FAILED" -eq 0 ]
}

# ---- make check ----

# results_count RESULT...: the number of these results in automake's .trs files
results_count()
{
	local pattern
	pattern=$(printf '|%s' "$@")
	find "$BUILD" -name '*.trs' -exec cat {} + |
		grep -cE "^:test-result: (${pattern#|})" || true
}

# Add why scripts were skipped to REASONS: the last line of each log before automake's line.
skip_reasons()
{
	local trs log
	while read -r trs; do
		log=${trs%.trs}.log
		REASONS+=("${log#"$BUILD"/}: $(grep -v '^SKIP ' "$log" | tail -n 1)")
	done < <(find "$BUILD" -name '*.trs' -exec grep -lE '^:global-test-result: SKIP' {} +)
}

# bounded SECONDS CMD...: run CMD in a new process group, which tests_end stops
bounded()
{
	local err=0

	timeout -k 30 "$@" 3>&- &
	CHILD=$!
	wait "$CHILD" || err=$?
	CHILD=
	return "$err"
}

# Print the end of the log of each program that failed, without the cases that passed.
failures_show()
{
	local trs log
	while read -r trs; do
		log=${trs%.trs}.log
		echo "== ${log#"$TOP"/}"
		grep -vE '^(ok|PASS:?) ' "$log" | tail -n 20
	done < <(find "$BUILD" -name '*.trs' \
		-exec grep -lE '^:global-test-result: (FAIL|ERROR|XPASS)' {} +)
}

# check_make TARGET: make check, or one like it, and the results that it leaves
check_make()
{
	local err=0 start=$SECONDS

	find "$BUILD" -name '*.trs' -delete
	bounded "$CHECK_SECONDS" \
		make -C "$BUILD" -j"$CHECK_JOBS" "$1" >"$BUILD/check.log" 2>&1 </dev/null || err=$?
	PASSED=$(results_count PASS XFAIL)
	FAILED=$(results_count FAIL ERROR XPASS)
	SKIPPED=$(results_count SKIP)
	skip_reasons
	if [ "$err" -ne 0 ] && [ "$FAILED" -eq 0 ]; then
		FAILED=1 # make failed before the tests had results
		tail -n 40 "$BUILD/check.log"
	elif [ "$FAILED" -gt 0 ]; then
		failures_show
	fi
	say check "$PASSED passed, $FAILED failed, $SKIPPED skipped ($((SECONDS - start)) s)"
}

# ---- jobs: tests that run in parallel, each on one or more cores ----

# job_cores SCRIPT: the number of cores that it needs, from its line `# cores: N`
job_cores()
{
	local cores
	cores=$(sed -n 's/^# cores: \([0-9]*\).*/\1/p' "$1")
	echo $((${cores:-1} < JOBS ? ${cores:-1} : JOBS))
}

# job_start NAME CORES SECONDS CMD...: start CMD once the cores are free
job_start()
{
	local name=$1 cores=$2 pid

	while [ "$CORES_FREE" -lt "$cores" ]; do
		job_end
	done
	top_srcdir=$TOP top_builddir=$BUILD \
		timeout -k 30 "${@:3}" >"$BUILD/$name.log" 2>&1 </dev/null 3>&- &
	pid=$!
	JOB_NAME[$pid]=$name
	JOB_START[$pid]=$SECONDS
	JOB_CORES[$pid]=$cores
	CORES_FREE=$((CORES_FREE - cores))
}

# Wait until one job ends, and add its result to the totals.
job_end()
{
	local pid err=0 name took log

	wait -n -p pid "${!JOB_NAME[@]}" || err=$?
	name=${JOB_NAME[$pid]}
	took=$((SECONDS - JOB_START[$pid]))
	log=$BUILD/$name.log
	CORES_FREE=$((CORES_FREE + JOB_CORES[$pid]))
	unset "JOB_NAME[$pid]" "JOB_START[$pid]" "JOB_CORES[$pid]"
	case $err in
	0)
		PASSED=$((PASSED + 1))
		say "$name" "passed ($took s)"
		;;
	77)
		SKIPPED=$((SKIPPED + 1))
		REASONS+=("$name: $(tail -n 1 "$log")")
		say "$name" "skipped"
		;;
	*)
		FAILED=$((FAILED + 1))
		tail -n 40 "$log"
		say "$name" "FAILED with status $err ($took s), see ${log#"$TOP"/}"
		;;
	esac
}

jobs_await()
{
	while [ ${#JOB_NAME[@]} -gt 0 ]; do
		job_end
	done
}
