#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two machines with two cables, each a network with a soft-RoCE device: rmemd in the first, its
# client in the second.
#   RMEM_RIG_LEGS   on which kernel:device pairs, default 612:rxe
# cores: 1  seconds: 40
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage
mkdir "$WORK/share"

for leg in $(legs 612:rxe); do
	parts_run "$leg" pair --devices 2 --share "$WORK/share" --memory 1536 \
		--timeout "${RMEM_RIG_SECONDS:-1200}" -- networks
done
