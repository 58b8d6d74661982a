#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The integration and fault tests once more, over real RDMA; after each the kernel's RDMA
# stack must be as idle as before.
#   RMEM_RIG_TESTS  which ones, as paths without .sh under tests/
#   RMEM_RIG_LEGS   on which kernel:device pairs
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage
tests=${RMEM_RIG_TESTS:-integration/atomics integration/examples \
	integration/inband integration/isolation integration/soak integration/kill \
	integration/resize integration/tenants integration/watch fault/channels fault/hostile fault/killstep}

cat >"$WORK/env" <<ENV
export top_srcdir=$top_srcdir top_builddir=$top_builddir FABRIC=rdma
export RMEM_KILL_STRIDE=${RMEM_KILL_STRIDE:-9}
export RMEM_SOAK_SECONDS=${RMEM_SOAK_SECONDS:-10} RMEM_DEATHS=${RMEM_DEATHS:-40}
export RMEM_WATCH_ROUNDS=${RMEM_WATCH_ROUNDS:-300}
export RMEM_SOAK_SEED=${RMEM_SOAK_SEED:-$RANDOM}
ENV
cat >"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
. "$1/env"
shift
# a program of the build tree is a script of libtool's, which costs more here than the program
guest_install
export LISTEN=$RIG_ADDR RMEM=/usr/bin/rmem
before=$(rdma_objects)
for test; do
	echo "-- $test"
	status=0 start=$SECONDS
	bash "$top_srcdir/tests/$test.sh" || status=$?
	[ "$status" -eq 0 ] || [ "$status" -eq 77 ] || fail "$test: status $status"
	rdma_idle "$before"
	kernel_clean
	echo "-- after $((SECONDS - start)) s"
done
CMD

# on iWARP what differs there
iwarp_tests=${RMEM_RIG_TESTS:-integration/atomics integration/inband \
	integration/isolation \
	integration/vectors integration/soak integration/watch fault/channels}

for leg in $(legs 612:rxe 612:siw); do
	echo "== kernel ${leg%:*}, ${leg#*:}"
	run=$tests
	[ "${leg#*:}" = rxe ] || run=$iwarp_tests
	"$RIG" run --kernel "${leg%:*}" --device "${leg#*:}" --memory 2048 --timeout 1000 \
		"bash $WORK/cmd.sh $WORK $run" || {
		echo "FAILED on $leg: $?"
		exit 1
	}
done
