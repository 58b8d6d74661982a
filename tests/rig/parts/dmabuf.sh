# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Buffers on dma-bufs: over TCP they are written and read; soft-RoCE cannot register them.
: "${top_srcdir:?}" "${top_builddir:?}"
[ -c /dev/udmabuf ] || fail "this kernel has no udmabuf"
for fabric in tcp rdma; do
	FABRIC=$fabric bash "$top_srcdir/tests/integration/dmabuf.sh" || fail "over $fabric: $?"
	[ ! -e "$top_builddir/src/python/rmem/.libs/_rmem.abi3.so" ] ||
		FABRIC=$fabric bash "$top_srcdir/tests/python/cuda.sh" ||
		fail "memory of GPUs over $fabric: $?"
done
