#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# the allocator of the pools against DPDK's malloc
# takes --json, --seed N, --steps N, --fills N, --range BYTES
# packages: libdpdk-dev
#
# Both allocate blocks of a range of addresses whose memory is never touched.
# - Sizes: multiples of 4 KiB from a Pareto distribution of shape 0.8, cut to 4 KiB and 1 GiB.
#   Half of them are at most 12 KiB; those above 16 MiB have more than half of the bytes.
# - Cost: the range is filled to 90 % and kept there by freeing blocks picked at random; a step is
#   one allocation or one free.
# - Utilisation: from an empty range, one block is freed after every two allocations until an
#   allocation fails; the median of --fills, 3 by default.
# - rte_free() does not zero here (see alloc-dpdk.c).  A/A is rmemd's allocator against itself.
# Takes less than five minutes on an idle host, and at most 10 GiB.
set -euo pipefail

: "${top_builddir:?is set by ./dev bench alloc}"
SEED=$RANDOM
STEPS=2000000
FILLS=3
RANGE=$((16 << 30))
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "alloc.sh [--json] [--seed N] [--steps N] [--fills N] [--range BYTES]" "$@"
pkg-config --exists libdpdk || {
	echo "alloc: DPDK is missing: apt-get install libdpdk-dev" >&2
	exit 1
}
make -s -C "$top_builddir" tests/bench/alloc >&2
[ -n "$JSON" ] ||
	echo "seed $SEED, $STEPS steps, $FILLS fills, 4 KiB to 1 GiB (Pareto, shape 0.8)," \
		"$((RANGE >> 30)) GiB 90 % full"
"$top_builddir/tests/bench/alloc" "$SEED" "$STEPS" "$FILLS" "$RANGE" | awk -v json="$JSON" \
	-v seed="$SEED" -v steps="$STEPS" -v fills="$FILLS" -v range="$RANGE" '
{ name[NR] = $1; median[NR] = $2; p999[NR] = $3; failed[NR] = $4; full[NR] = $5 }
END {
	if (NR != 3) exit 1
	time = median[1] / median[2]
	if (p999[1] / p999[2] > time) time = p999[1] / p999[2]
	if (json) {
		printf "{\"seed\":%s,\"steps\":%s,\"fills\":%s,", seed, steps, fills
		printf "\"range_bytes\":%s,\"full\":0.9,\"rows\":[", range
		for (i = 1; i <= 3; i++) {
			printf "%s{\"allocator\":\"%s\",", (i > 1 ? "," : ""), name[i]
			printf "\"median_ns\":%d,\"p999_ns\":%d,", median[i], p999[i]
			printf "\"failed\":%d,\"utilisation\":%s}", failed[i], full[i]
		}
		printf "],\"worst\":{\"time\":%.2f,\"utilisation\":%.3f}}\n", time,
			full[1] / full[2]
		exit
	}
	row = "%-12s %10s %10s %10s %12s\n"
	printf row, "", "median ns", "p99.9 ns", "failed", "utilisation"
	for (i = 1; i <= 2; i++)
		printf row, name[i], median[i], p999[i], failed[i], full[i]
	printf row, "ratio", sprintf("%.3f", median[1] / median[2]),
		sprintf("%.4f", p999[1] / p999[2]), "", sprintf("%.4f", full[1] / full[2])
	printf row, "A/A", sprintf("%.3f", median[1] / median[3]),
		sprintf("%.3f", p999[1] / p999[3]), "", sprintf("%.4f", full[1] / full[3])
	printf "worst: time %.2f utilisation %.3f\n", time, full[1] / full[2]
}'
