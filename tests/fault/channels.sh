#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Channels that break under load: no operation fails and no byte is wrong.
#   RMEM_DEATHS  number of channels that die, default 40
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh" || exit 1
need jq

one_thread_with_tsan
server_start
deaths=${RMEM_DEATHS:-40}
echo "break $deaths" | timeout $(((100 + 5 * deaths) * patience)) "$(built tests/fault/load)" \
	"$uri" \
	"$RMEM_SEED" 30000 || fail "load: status $?"
lent_zero 20
server_stop
