#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The simulation, over seeds that are the same each time.
# RMEM_SIMULATE_SECONDS  search for this time, from the seed RMEM_SEED on; else a fixed number of steps
set -euo pipefail

simulate=${top_builddir:?}/tests/simulate/simulate
if [ -n "${RMEM_SIMULATE_SECONDS-}" ]; then
	exec "$simulate" --seconds "$RMEM_SIMULATE_SECONDS" --seed "${RMEM_SEED:-1}"
fi
# A reply for which there was no memory: a request without an answer, and one that took effect twice.
# Another simulation takes other ways from the same seeds.
for seed in 14189 13931; do
	output=$("$simulate" --seed "$seed") || {
		status=$?
		tail -n 100 <<<"$output"
		exit "$status"
	}
done
exec "$simulate" --steps 2000000
