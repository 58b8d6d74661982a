#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# the cost of a lease and a buffer that threads share, each with its own queue
# takes --json, --slices N, --threads N
#
# Measures a thread's time for a small read over a null device, in alternating slices: with the
# lease and the buffer that all threads use (shared), and with a lease and a buffer of its own
# (own).  Figures are medians; the ratio compares a shared slice with the own slices before and
# after it.  A/A compares two own slices.  A row with an A/A outside 0.98 to 1.02 is measured
# again, and marked as invalid if it stays there.  The number of threads is that of processors, but
# at least two; the first row has one thread.
set -euo pipefail

: "${top_builddir:?is set by ./dev bench threads}"
SLICES=120
THREADS=$(nproc)
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "threads.sh [--json] [--slices N] [--threads N]" "$@"
[ "$THREADS" -le 32 ] || THREADS=32
[ "$THREADS" -ge 2 ] || THREADS=2
make -s -C "$top_builddir" tests/bench/threads >&2
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# measure THREADS BATCH
measure()
{
	"$top_builddir/tests/bench/threads" "$1" "$2" "$SLICES" 204800 >"$WORK/out" || {
		cat "$WORK/out" >&2
		return 1
	}
	jq -Rcs --argjson threads "$1" --argjson batch "$2" '
	def median: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
	def of($kind): map(select(.[0] == $kind)[1] | tonumber);
	def against($a; $b): [$a, $b] | transpose | map(.[0] / .[1]) | median;
	split("\n") | map(select(. != "") | split(" "))
	| of("own") as $own | of("again") as $again | of("shared") as $shared
	| ([$own, $again] | transpose | map(add / 2)) as $around
	| {threads: $threads, batch: $batch, own_ns: ($own | median),
	   shared_ns: ($shared | median), ratio: against($shared; $around),
	   aa: against($again; $own)}
	| . + {valid: (.aa >= 0.98 and .aa <= 1.02)}' "$WORK/out"
}

# row THREADS BATCH
row()
{
	local row i
	for i in 1 2 3; do
		row=$(measure "$1" "$2")
		[ "$(jq .valid <<<"$row")" = false ] || break
	done
	jq -c --argjson attempts "$i" '. + {attempts: $attempts}' <<<"$row"
}

{
	row 1 1
	row "$THREADS" 1
	row "$THREADS" 32
} >"$WORK/rows"
if [ -n "$JSON" ]; then
	jq -cs '{rows: ., worst: {shared:
		(map(select(.valid and .threads > 1).ratio) | max)}}' "$WORK/rows"
	exit 0
fi
printf '%7s %5s %9s %9s %7s %7s\n' threads batch "own ns" "shared ns" ratio A/A
jq -r '[.threads, .batch, .own_ns, .shared_ns, .ratio, .aa,
	if .valid then "" else "invalid" end] | map(tostring) | join(" ")' \
	"$WORK/rows" | while read -r threads batch own all ratio aa invalid; do
	LC_ALL=C printf '%7d %5d %9.1f %9.1f %7.3f %7.3f %s\n' "$threads" "$batch" \
		"$own" "$all" "$ratio" "$aa" "$invalid"
done
worst=$(jq -rs 'map(select(.valid and .threads > 1).ratio) | max // empty' "$WORK/rows")
if [ -n "$worst" ]; then
	LC_ALL=C printf 'worst: shared %.3f\n' "$worst"
else
	echo "worst: no valid figure"
fi
