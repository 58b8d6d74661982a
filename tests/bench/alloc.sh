#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# the allocator of the pools against DPDK's malloc; takes --json, --seed N, --steps N, --range BYTES
#
# Both lend pieces of a range of addresses, and nobody touches them.  Sizes are of a Pareto
# distribution of shape 0.8, cut to 4 KiB and 1 GiB, in whole 4 KiB: half of them have at most
# 12 KiB, and those above 16 MiB more than half of the bytes.  Cost: the range is filled to
# 90 %, and kept there by giving back what is picked at random; each step takes or gives one.
# Utilisation: from an empty range on two are taken for one given back, until one finds no
# room; the median of 15.  rte_free() does not zero here (see alloc-dpdk.c).  A/A is rmemd's
# against itself.  Takes some 10 minutes and as many GiB at most.
set -euo pipefail

: "${top_builddir:?is set by ./dev bench alloc}"
JSON=
SEED=$RANDOM
STEPS=10000000
RANGE=$((16 << 30))
while [ $# -gt 0 ]; do
	case $1 in
	--json) JSON=yes ;;
	--seed)
		SEED=${2:?}
		shift
		;;
	--steps)
		STEPS=${2:?}
		shift
		;;
	--range)
		RANGE=${2:?}
		shift
		;;
	*)
		echo "usage: alloc.sh [--json] [--seed N] [--steps N] [--range BYTES]" >&2
		exit 2
		;;
	esac
	shift
done
pkg-config --exists libdpdk || {
	echo "alloc: DPDK is missing: apt-get install libdpdk-dev" >&2
	exit 1
}
make -s -C "$top_builddir" tests/bench/alloc >&2
[ -n "$JSON" ] ||
	echo "seed $SEED, $STEPS steps, 4 KiB to 1 GiB (Pareto, shape 0.8), $((RANGE >> 30)) GiB 90 % full"
"$top_builddir/tests/bench/alloc" "$SEED" "$STEPS" "$RANGE" | awk -v json="$JSON" \
	-v seed="$SEED" -v steps="$STEPS" -v range="$RANGE" '
{ name[NR] = $1; median[NR] = $2; p999[NR] = $3; failed[NR] = $4; full[NR] = $5 }
END {
	if (NR != 3) exit 1
	time = median[1] / median[2]
	if (p999[1] / p999[2] > time) time = p999[1] / p999[2]
	if (json) {
		printf "{\"seed\":%s,\"steps\":%s,\"range_bytes\":%s,\"full\":0.9,\"rows\":[", seed, steps, range
		for (i = 1; i <= 3; i++)
			printf "%s{\"allocator\":\"%s\",\"median_ns\":%d,\"p999_ns\":%d,\"failed\":%d,\"utilisation\":%s}",
				(i > 1 ? "," : ""), name[i], median[i], p999[i], failed[i], full[i]
		printf "],\"worst\":{\"time\":%.2f,\"utilisation\":%.3f}}\n", time, full[1] / full[2]
		exit
	}
	row = "%-12s %10s %10s %10s %12s\n"
	printf row, "", "median ns", "p99.9 ns", "no room", "utilisation"
	for (i = 1; i <= 2; i++)
		printf row, name[i], median[i], p999[i], failed[i], full[i]
	printf row, "ratio", sprintf("%.3f", median[1] / median[2]), sprintf("%.4f", p999[1] / p999[2]),
		"", sprintf("%.4f", full[1] / full[2])
	printf row, "A/A", sprintf("%.3f", median[1] / median[3]), sprintf("%.3f", p999[1] / p999[3]),
		"", sprintf("%.4f", full[1] / full[3])
	printf "worst: time %.2f utilisation %.3f\n", time, full[1] / full[2]
}'
