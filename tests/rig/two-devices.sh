#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# One machine with two soft-RoCE devices and two NUMA nodes.
#   RMEM_RIG_PARTS  which of: channels placement pool-devices
#   RMEM_RIG_LEGS   on which kernel:device pairs, default 612:rxe
# cores: 1  seconds: 190
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

for leg in $(legs 612:rxe); do
	# pool-devices must be the last part: it leaves the second network without an address
	parts_run "$leg" run --devices 2 --numa 2 --node-memory 1536,1536 \
		--timeout "${RMEM_RIG_SECONDS:-1200}" -- channels placement pool-devices
done
