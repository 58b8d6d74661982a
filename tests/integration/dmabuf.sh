#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A buffer on a dma-buf is written and read over TCP; the error of an RDMA device that cannot
# register it names the device.  Needs /dev/udmabuf, so the rig runs this test.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
[ -c /dev/udmabuf ] || skip "this kernel has no /dev/udmabuf"
need jq

one_thread_with_tsan
server_start
timeout $((60 * patience)) "$(built tests/integration/dmabuf)" "$uri" || fail "dmabuf: status $?"
lent_zero 20
server_stop
