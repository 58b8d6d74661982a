#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Vectored reads and writes change the bytes that the list names, and no others.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

one_thread_with_tsan
server_start
timeout $((120 * patience)) "$(built tests/integration/vectors)" "$uri&channels=2" "$RMEM_SEED" ||
	fail "vectors: status $?"
lent_zero 20
server_stop
