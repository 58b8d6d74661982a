#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Writes that end in ETIMEDOUT or ECANCELED while the daemon is stopped are not applied later.
#   RMEM_ROUNDS  number of times that the daemon is stopped, default 8
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh" || exit 1

one_thread_with_tsan
heartbeat=200ms
fence=1s
server_start
timeout $((180 * patience)) "$(built tests/fault/ended)" "$uri" "$server_pid" \
	"${RMEM_ROUNDS:-8}" || fail "ended: status $?"
server_stop
