#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Everything that can break under a program that reads and writes over real RDMA.
#   RMEM_ROUNDS    of each fault, default 2
#   RMEM_FAULTS    which ones, default all
#   RMEM_RIG_LEGS  on which kernel:device pairs
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

cat >"$WORK/env" <<ENV
export top_srcdir=$top_srcdir top_builddir=$top_builddir FABRIC=rdma
export RMEM_ROUNDS=${RMEM_ROUNDS:-2}
export FAULTS="${RMEM_FAULTS:-refused flushed control server port device removal address}"
export RMEM_SOAK_SEED=${RMEM_SOAK_SEED:-$RANDOM}
ENV
cat >"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
. "$1/env"
export LISTEN=$RIG_ADDR
before=$(rdma_objects)
bash "$top_srcdir/tests/fault/faults.sh" || fail "status $?"
rdma_idle "$before"
kernel_clean
CMD

for leg in $(legs 612:rxe 612:siw); do
	echo "== kernel ${leg%:*}, ${leg#*:}"
	"$RIG" run --kernel "${leg%:*}" --device "${leg#*:}" --memory 2048 --timeout 3000 \
		"bash $WORK/cmd.sh $WORK" || {
		echo "FAILED on $leg: $?"
		exit 1
	}
done
