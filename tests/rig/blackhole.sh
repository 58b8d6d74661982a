#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two machines, and a cable that swallows everything both ways: operations survive when it
# heals in time, else they end by their time-out; the server fences when it has promised to;
# who leaves meanwhile is not held up; nothing stays behind.
#   RMEM_ROUNDS  of each, default 1
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

cat >"$WORK/env" <<ENV
export top_srcdir=$top_srcdir top_builddir=$top_builddir FABRIC=rdma
export RMEM_ROUNDS=${RMEM_ROUNDS:-1} RMEM_SOAK_SEED=${RMEM_SOAK_SEED:-$RANDOM}
ENV
for side in server client; do
	cat >"$WORK/$side.sh" <<-SIDE
	. "$WORK/guest.sh"
	. "$WORK/env"
	before=\$(rdma_objects)
	bash "$top_srcdir/tests/fault/blackhole.sh" $side || fail "$side: status \$?"
	rdma_idle "\$before"
	kernel_clean
	SIDE
done

for leg in $(legs 612:rxe); do
	echo "== kernel ${leg%:*}, ${leg#*:}"
	"$RIG" pair --kernel "${leg%:*}" --device "${leg#*:}" --timeout 600 \
		"bash $WORK/server.sh" "bash $WORK/client.sh" || {
		echo "FAILED on $leg: $?"
		exit 1
	}
done
