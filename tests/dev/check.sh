#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Build, run every test, build the packages; the last line has the totals.
#
# usage: ./dev check [--quick]
#
#   --quick    only the rules of the tree, the unit tests and the short integration tests
#
# A test of the rig needs a virtual machine; they are skipped where none boots.
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/lib/steps.sh"
# shellcheck source=tests/dev/lib/build.sh
. "$(dirname "$0")/lib/build.sh"
# shellcheck source=tests/dev/lib/results.sh
. "$(dirname "$0")/lib/results.sh"
# shellcheck source=tests/dev/lib/machines.sh
. "$(dirname "$0")/lib/machines.sh"

RIG_SECONDS=1800 # limit of one test of the rig

# rig_jobs: a line for each script and leg, sorted by number of cores and then by duration, highest
# first: the script, and the leg if the script has some
rig_jobs()
{
	local test seconds legs leg
	for test in "$TOP"/tests/rig/*.sh; do
		seconds=$(sed -n 's/^# cores: .* seconds: \([0-9]*\).*/\1/p' "$test")
		# shellcheck disable=SC2016 # a pattern
		legs=$(sed -n 's/.*\$(legs \(.*\)); do$/\1/p' "$test")
		for leg in ${legs:--}; do
			echo "$(job_cores "$test") $seconds $test ${leg#-}"
		done
	done | sort -k1,1nr -k2,2nr | cut -d' ' -f3-
}

check_rig()
{
	local jobs=() job test leg name start=$SECONDS

	mapfile -t jobs < <(rig_jobs)
	if ! rig_ready; then
		SKIPPED=$((SKIPPED + ${#jobs[@]}))
		REASONS+=("${#jobs[@]} tests of the rig: $(tail -n 1 "$BUILD/rig.log")")
		return 0
	fi
	say rig "virtual machines boot ($((SECONDS - start)) s)"
	for job in "${jobs[@]}"; do
		read -r test leg <<<"$job"
		name=$(basename "$test" .sh)${leg:+-${leg/:/-}}
		job_start "rig-${name#rig-}" "$(job_cores "$test")" "$RIG_SECONDS" \
			env ${leg:+"RMEM_RIG_LEGS=$leg"} bash "$test"
	done
	jobs_await
}

# The Debian packages are built, and lintian has no complaints; what is built without parts works
# without what these need; the wheel of the Python package is built, and works alone.  Much of each
# is done by one process at a time, so they run side by side.  Tests of the rig need the first two.
check_builds()
{
	local name

	for name in reduced package wheel; do
		job_start "$name" 1 "$CHECK_SECONDS" "$TOP/dev" "$name"
	done
	jobs_await
}

! help_wanted "$@" || exit 0
arguments_max 1 "$@"
tests_begin
case ${1-} in
'')
	setup build test rig
	build build
	check_make check
	check_builds
	check_rig
	;;
--quick)
	setup build test
	build build
	check_make check-quick
	;;
*) die check "takes no argument '$1'; see ./dev check --help" ;;
esac
tests_result
