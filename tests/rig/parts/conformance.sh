# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The conformance suite over the kernel's RDMA stack; on soft-RoCE with rdma_cm and without.
paths=(verbs)
[ ! -e /sys/class/infiniband/rxe0 ] || paths+=(direct)
for path in "${paths[@]}"; do
	echo "-- conformance, $path"
	CK_TAP_LOG_FILE_NAME=- CK_VERBOSITY=silent \
		"$BUILD/tests/integration/fabric-conformance" "$path" "$RIG_ADDR" ||
		fail "conformance, $path"
done
