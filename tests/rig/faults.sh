#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every fault under a program that reads and writes over RDMA, in one machine.
#   RMEM_ROUNDS    of each fault, default 2
#   RMEM_FAULTS    which faults, default all
#   RMEM_RIG_LEGS  on which kernel:device pairs
# cores: 1  seconds: 180
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

for leg in $(legs 612:rxe 612:siw); do
	parts_run "$leg" run --memory 2048 --timeout "${RMEM_RIG_SECONDS:-1500}" -- faults
done
