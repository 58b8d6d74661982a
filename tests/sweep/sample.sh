#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A sample of the sweep, and all calls after which the file system is full; over RDMA the calls of
# libibverbs and librdmacm.
#   RMEM_SWEEP_EVERY  one of how many calls fails, at places that are new; default 60, over RDMA 8
set -euo pipefail
: "${top_builddir:?}"
if [ "$(stat -f -c %T /dev/shm)" != tmpfs ]; then
	echo "SKIP: /dev/shm is no tmpfs"
	exit 77
fi
if grep -q -- -fsanitize=thread "$top_builddir/Makefile"; then
	echo "SKIP: ThreadSanitizer cannot have a library preloaded that defines malloc()"
	exit 77
fi
every=60 options=(--jobs 2)
if [ "${FABRIC:-tcp}" = rdma ]; then
	every=8 options=(--class rdma --fabric rdma --address "$LISTEN")
fi
for target in daemon library; do
	"$top_builddir/tests/sweep/sweep" --seed 1 --places --every "${RMEM_SWEEP_EVERY:-$every}" \
		"${options[@]}" "$target" "$top_builddir"
done
[ "${FABRIC:-tcp}" = rdma ] ||
	"$top_builddir/tests/sweep/sweep" --seed 1 --class space daemon "$top_builddir"
