#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A program that closes the descriptors of a session, and opens others: see closed.c.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
[ "$FABRIC" != rdma ] || skip "libibverbs does not look whose descriptors it uses"
! with_tsan || skip "what closed.c does is what ThreadSanitizer reports"

# no heartbeat finds what is closed
heartbeat=10s
fence=30s
grace=2s
server_start
program=$(built tests/integration/closed)
timeout $((600 * patience)) "$program" "$uri" || fail "closed: status $?"
lent_zero 20
server_stop
