#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Malformed frames of every kind: after each kind the daemon serves the next client, and at the end
# no lease and no session is left.
RMEM_SEED=${RMEM_SEED:-20261120}
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh" || exit 1
need jq

grace=100ms
server_start
data_port=$((port + 2))
[ "$FABRIC" != rdma ] || data_port=0
timeout $((300 * patience)) "$(built tests/fault/hostile)" "$LISTEN" "$port" "$data_port" \
	"$RMEM_SEED" || fail "hostile: status $?"
if [ "$FABRIC" != rdma ] && [ "$LISTEN" = 127.0.0.1 ]; then
	json_is status '.counters.refused | .channel_address == 2 and .channel_number == 1' ||
		fail "stolen tokens are not counted: $(rmemctl --json status |
			jq -c .counters.refused)"
fi
status_await '.memory.lent_bytes == 0 and .sessions.active + .sessions.fenced == 0' 20 ||
	fail "a lease or a session is left"
server_stop
