#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two clients with 64 leases each read and write random sizes and check every byte.
#   RMEM_SOAK_SECONDS  how long, default 10
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

seconds=${RMEM_SOAK_SECONDS:-10}
pool_size=256M
soak=$(built tests/integration/soak)

one_thread_with_tsan
server_start
soaks=()
for client in 0 1; do
	timeout $((seconds * 3 + 120)) "$soak" "$uri&channels=2" \
		"$seconds" $((RMEM_SEED + client)) &
	soaks+=($!)
	pids+=($!)
done
for pid in "${soaks[@]}"; do
	status=0
	wait "$pid" || status=$?
	[ "$status" -eq 0 ] || fail "a client ended with status $status"
done
pids=("$server_pid")
status_await '.memory.lent_bytes == 0 and .sessions.active + .sessions.fenced == 0' 20 ||
	fail "a lease or a session is left"
server_stop
