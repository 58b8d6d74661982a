#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A program that has sessions and forks: its children have sessions of their own, and cannot use
# those of the parent.
#   RMEM_ROUNDS  number of forks, default 10
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1

! with_tsan || skip "ThreadSanitizer cannot follow the threads of a forked child"
heartbeat=200ms
fence=1s
server_start
timeout $((120 * patience)) "$(built tests/integration/fork)" "$uri" "${RMEM_ROUNDS:-10}" ||
	fail "fork: status $?"
lent_zero 20
server_stop
