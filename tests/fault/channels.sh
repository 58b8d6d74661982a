#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Channels that break cost no operation and no byte.
#   RMEM_DEATHS  how many, default 40
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh" || exit 1
need jq

one_thread_if_watched
server_start
echo "break ${RMEM_DEATHS:-40}" | timeout 300 "$top_builddir/tests/fault/load" "$uri" \
	"${RMEM_SOAK_SEED:-$RANDOM}" 30000 || fail "load: status $?"
lent_zero 20
server_stop
