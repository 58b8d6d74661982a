#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The simulation, over seeds that are the same each time.
# RMEM_SIMULATE_SECONDS  search for this time, from the seed RMEM_SEED on; else a fixed number of
# steps
set -euo pipefail

simulate=${top_builddir:?}/tests/simulate/simulate
if [ -n "${RMEM_SIMULATE_SECONDS-}" ]; then
	exec "$simulate" --seconds "$RMEM_SIMULATE_SECONDS" --seed "${RMEM_SEED:-1}"
fi
exec "$simulate" --steps 2000000 --moves
