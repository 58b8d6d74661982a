#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Processes share a cache and are killed and stopped, and the daemon is killed and started again
# with its memory: every key is linearizable, and no get finds wrong bytes.
#   RMEM_CACHE_TIME       how long, seconds; default 60
#   RMEM_CACHE_PROCESSES  default 16
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1

# shellcheck disable=SC2034 # of lib.sh
{ heartbeat=200ms fence=2s grace=3s; }
left=${RMEM_CACHE_TIME:-60}
state_keep
server_start
while [ "$left" -gt 0 ]; do
	seconds=$((left < 30 ? left : 30))
	left=$((left - seconds))
	"$(built tests/integration/cache-history)" "$uri" "$seconds" \
		"${RMEM_CACHE_PROCESSES:-16}" $((RMEM_SEED + left)) &
	history=$!
	pids+=("$history")
	end=$((SECONDS + seconds - 5))
	while [ $SECONDS -lt $end ]; do
		sleep $((3 + RANDOM % 4))
		kill -KILL "$server_pid"
		wait "$server_pid" 2>/dev/null || true
		server_restart
	done
	process_await "$history" $((seconds + 300)) || fail "cache-history does not end"
	# shellcheck disable=SC2154 # of lib.sh
	[ "$process_status" = 0 ] || fail "cache-history: status $process_status"
	client rm cache/history
done
