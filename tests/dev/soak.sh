#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Run the long versions of the tests.
#
# usage: ./dev soak [--seed N] [--seconds N] [NAME...]
#
# Runs all or those named, in parallel like those of `check`:
#
#   --seed N      the seed of all random choices (default RMEM_SEED, or random); it is printed
#   --seconds N   duration of each soak that has one (default RMEM_SOAK_SECONDS, or 3600)
#
# The last line has the totals.  The output of each soak is in build/soak-NAME.log.
#
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/lib/steps.sh"
# shellcheck source=tests/dev/lib/build.sh
. "$(dirname "$0")/lib/build.sh"
# shellcheck source=tests/dev/lib/results.sh
. "$(dirname "$0")/lib/results.sh"
# shellcheck source=tests/dev/lib/machines.sh
. "$(dirname "$0")/lib/machines.sh"

SOAK_SECONDS=${RMEM_SOAK_SECONDS:-3600}
RMEM_SEED=${RMEM_SEED:-$((RANDOM * 32768 + RANDOM))}

# Each line: name, test, variables, `#` and a description.  The test describes its variables; `,` is
# a blank in a value.
soak_table()
{
	local both=612:rxe,612:siw
	local siw=integration/acting,integration/metrics,integration/shares

	cat <<-TABLE
	ledger test-ledger RMEM_LEDGER_STRIDE=1 # the daemon dies after each store to its ledger
	zeros test-zeros RMEM_ZEROS_SECONDS=$SOAK_SECONDS;RMEM_ZEROS_SEED=$RMEM_SEED \
		# no tenant reads another's bytes
	attack tests/attack/attack.sh RMEM_ATTACK_ROUNDS=20 \
		# the attacker, with longer floods and more guesses
	fuzz dev - # ./dev fuzz: coverage-guided fuzzing of each parser
	sweep dev - # ./dev sweep: each call of the daemon and of the library fails once
	simulate tests/simulate/simulate.sh RMEM_SIMULATE_SECONDS=$SOAK_SECONDS \
		# histories of daemon and clients, from the seed on
	mutants tests/mutants/mutants.sh - \
		# ./dev mutants: each rule that is broken on purpose is found
	package dev - # ./dev package --twice: two builds of the Debian packages are equal
	histories test-cache-histories RMEM_CACHE_HISTORIES=$((SOAK_SECONDS * 50)) \
		# histories of a cache's clients, from the seed on
	cache tests/integration/cache-history.sh RMEM_CACHE_TIME=$SOAK_SECONDS \
		# processes that share a cache are killed and stopped, beside restarts of the daemon
	python tests/python/many.sh RMEM_PYTHON_OPERATIONS=1000000 \
		# a million operations of each kind leave nothing behind, in Python
	engines tests/python/engines.sh - # Python's doors to inference engines, with their releases
	traffic tests/integration/soak.sh RMEM_SOAK_SECONDS=$SOAK_SECONDS \
		# two clients over TCP, every byte checked
	deaths tests/fault/channels.sh RMEM_DEATHS=2000 # channels that break under load, over TCP
	restarts tests/fault/restart.sh RMEM_ROUNDS=200 # the daemon is killed under load, over TCP
	stops tests/fault/ended.sh RMEM_ROUNDS=200 \
		# the daemon is stopped under writes that time out
	deadlines tests/fault/deadlines.sh RMEM_SOAK_SECONDS=$SOAK_SECONDS;RMEM_KILL_SECONDS=60 \
		# the daemon is stopped and killed under six threads with time-outs of 1 to 4 ms
	hostile tests/fault/hostile.sh - # malformed frames, others than in check
	rig-traffic tests/rig/integration.sh \
		RMEM_RIG_TESTS=integration/soak;RMEM_SOAK_SECONDS=$SOAK_SECONDS # traffic over RDMA
	rig-attack tests/rig/integration.sh RMEM_RIG_TESTS=attack/attack;RMEM_ATTACK_ROUNDS=20 \
		# the attacker over RDMA, with more guesses
	rig-siw tests/rig/integration.sh \
		RMEM_RIG_LEGS=612:siw;RMEM_RIG_TESTS=$siw \
		# over iWARP what depends little on the device
	rig-deaths tests/rig/integration.sh RMEM_RIG_TESTS=fault/channels;RMEM_DEATHS=500 \
		# channels that break under load, over RDMA
	rig-killstep tests/rig/integration.sh \
		RMEM_RIG_TESTS=fault/killstep;RMEM_KILL_STRIDE=1;RMEM_RIG_LEGS=612:rxe \
		# a client killed at every step
	rig-sweep tests/rig/integration.sh RMEM_RIG_TESTS=sweep/sample;RMEM_SWEEP_EVERY=1 \
		# each place that calls libibverbs or librdmacm fails once
	rig-watch tests/rig/integration.sh RMEM_RIG_TESTS=integration/watch;RMEM_WATCH_ROUNDS=4000 \
		# notifications
	rig-faults tests/rig/faults.sh RMEM_ROUNDS=10;RMEM_RIG_LEGS=612:rxe,61:rxe,612:siw \
		# ten rounds of every fault
	rig-conformance tests/rig/one-device.sh RMEM_RIG_PARTS=conformance;RMEM_PERCENT=100 \
		# all repetitions
	rig-devices tests/rig/two-devices.sh RMEM_RIG_PARTS=channels;RMEM_BENCH_MS=5000 \
		# equal load of two devices
	rig-holes tests/rig/two-machines.sh \
		RMEM_RIG_PARTS=blackhole;RMEM_RIG_LEGS=612:rxe;RMEM_ROUNDS=10 \
		# a cable that loses every packet
	rig-silence tests/rig/two-machines.sh \
		RMEM_RIG_PARTS=silence;RMEM_RIG_LEGS=$both;RMEM_SILENCES=20 \
		# 20 rounds of each way to fall silent
	rig-loss tests/rig/two-machines.sh \
		RMEM_RIG_PARTS=loss;RMEM_RIG_LEGS=$both;RMEM_LOSS_SECONDS=60;RMEM_ADDS=3000 \
		# a minute of verified traffic for each rate of loss
	rig-transfer tests/rig/two-machines.sh \
		RMEM_RIG_PARTS=transfer,knobs;RMEM_RIG_LEGS=612:rxe,61:rxe,612:siw;RMEM_MIB=512 \
		# a file of 512 MiB, also on 6.1
	rig-restart tests/rig/restart.sh RMEM_ROUNDS=20;RMEM_MIB=256 \
		# the service is killed under load
	TABLE
}

# soak_start NAME TEST VARIABLES
soak_start()
{
	local variables=() cores=1 test limit=$((4 * SOAK_SECONDS + 14400)) targets

	[ "$3" = - ] || IFS=';' read -ra variables <<<"$3"
	variables=("${variables[@]//,/ }")
	case $2 in
	*.sh)
		cores=$(job_cores "$TOP/$2")
		test=(bash "$TOP/$2")
		;;
	dev)
		cores=$JOBS
		targets=("$TOP"/tests/fuzz/fuzz-*.c)
		limit=$((limit + ${#targets[@]} * SOAK_SECONDS))
		test=("$TOP/dev" "$1" --seconds "$SOAK_SECONDS")
		[ "$1" != package ] || test=("$TOP/dev" package --twice)
		;;
	*)
		test=("$(find "$BUILD/tests" -name "$2" -type f -perm -u+x | head -n 1)")
		;;
	esac
	job_start "soak-$1" "$cores" "$limit" \
		env RMEM_RIG_SECONDS="$limit" RMEM_SEED="$RMEM_SEED" "${variables[@]}" "${test[@]}"
}

# soak_wanted NAME [NAME...]: whether the first name is among the others, or is the only one
soak_wanted()
{
	[ $# -eq 1 ] || [[ " ${*:2} " == *" $1 "* ]]
}

if help_wanted "$@"; then
	soak_table | while read -r name _ _ text; do
		printf '  %-12s %s\n' "$name" "${text#*# }"
	done
	exit 0
fi
names=()
known=$(soak_table | cut -d' ' -f1)
while [ $# -gt 0 ]; do
	case $1 in
	--seed | --seconds)
		[[ ${2-} =~ ^[1-9][0-9]{0,17}$ ]] || die soak "$1 takes a number from 1"
		[ "$1" = --seed ] && RMEM_SEED=$2 || SOAK_SECONDS=$2
		shift
		;;
	*)
		grep -qxF -- "$1" <<<"$known" || die soak "no soak '$1'; see ./dev soak --help"
		names+=("$1")
		;;
	esac
	shift
done
tests_begin
setup build test rig
build build
step make-check make -C "$BUILD" -j"$JOBS" check TESTS=
say soak "seed $RMEM_SEED, $SOAK_SECONDS s each: ./dev soak --seed $RMEM_SEED repeats it"
# shellcheck disable=SC2034 # for tests_end
FAILED=0
rig=ready
if [[ " ${names[*]-$known} " == *rig-* ]] && ! rig_ready; then
	rig=missing
fi
while read -r name test variables _; do
	soak_wanted "$name" "${names[@]}" || continue
	if [[ $name == rig-* ]] && [ "$rig" = missing ]; then
		SKIPPED=$((SKIPPED + 1))
		REASONS+=("soak-$name: $(tail -n 1 "$BUILD/rig.log")")
		continue
	fi
	soak_start "$name" "$test" "$variables"
done < <(soak_table)
jobs_await
tests_result
