#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The integration and fault tests over RDMA, in one machine with one device.  Its CPUs run at the
# same time, because these tests look for races.
#   RMEM_RIG_TESTS  which ones, as paths below tests/ without .sh
#   RMEM_RIG_LEGS   on which kernel:device pairs
# cores: 2  seconds: 300
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
export RMEM_KILL_STRIDE=${RMEM_KILL_STRIDE:-9} RMEM_WATCH_ROUNDS=${RMEM_WATCH_ROUNDS:-60}
export RMEM_RESIZE_KILLS=${RMEM_RESIZE_KILLS:-1} RMEM_CACHE_TIME=${RMEM_CACHE_TIME:-15}
export RMEM_CACHE_PROCESSES=${RMEM_CACHE_PROCESSES:-6}
export RMEM_SOAK_SECONDS=${RMEM_SOAK_SECONDS:-5} RMEM_DEATHS=${RMEM_DEATHS:-20}
stage

for leg in $(legs 612:rxe 612:siw); do
	parts_run "$leg" run --parallel --memory 2048 \
		--timeout "${RMEM_RIG_SECONDS:-1500}" -- integration
done
