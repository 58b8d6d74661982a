#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The suite that both fabrics must pass, over the kernel's RDMA stack: soft-RoCE, with rdma_cm
# and without, and iWARP.
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

cat >"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
before=$(rdma_objects)
for way in $2; do
	echo "-- $way"
	CK_TAP_LOG_FILE_NAME=- CK_VERBOSITY=silent \
		"$BUILD/tests/integration/fabric-conformance" "$way" "$RIG_ADDR" ||
		fail "conformance, $way"
done
rdma_idle "$before"
kernel_clean
CMD

for leg in $(legs 612:rxe 61:rxe 612:siw); do
	echo "== kernel ${leg%:*}, ${leg#*:}"
	ways="verbs direct"
	[ "${leg#*:}" = rxe ] || ways=verbs
	"$RIG" run --kernel "${leg%:*}" --device "${leg#*:}" --timeout 600 \
		"bash $WORK/cmd.sh $WORK '$ways'" || {
		echo "FAILED on $leg: $?"
		exit 1
	}
done
