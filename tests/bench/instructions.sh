#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# instructions per operation that librmem adds to bare verbs calls; takes --json
# packages: valgrind
#
# librmem and a loop of bare calls run equal operations over a null device under callgrind.  A
# figure is the mean for the post and the completion of one operation.  The calls are those of a
# queue, and rmem_read() and rmem_write() with plain and with registered memory.  The last line is
# the largest difference for a queue in batches of 32; it leaves out iWARP, where librmem also has
# to confirm writes by a read.
#
# For a queue in batches of 32 both also run without callgrind, by the clock, in alternating slices
# of one process: `rate` is librmem's as a share of the bare loop's, and `A/A` the bare loop's as a
# share of itself.
set -euo pipefail

: "${top_builddir:?is set by ./dev bench instructions}"
OPERATIONS=1000000
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "instructions.sh [--json]" "$@"

command -v valgrind >/dev/null || {
	echo "instructions: valgrind is missing: apt-get install valgrind" >&2
	exit 1
}
make -s -C "$top_builddir" tests/bench/instructions >&2
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# count WHO OP BYTES CHANNELS BATCH DEVICE: instructions per operation
count()
{
	local more=("$OPERATIONS")

	[ "$6" != iwarp ] || more+=(iwarp)
	valgrind --tool=callgrind --collect-atstart=no --toggle-collect=measured \
		--callgrind-out-file=/dev/null \
		"$top_builddir/tests/bench/instructions" "${@:1:5}" "${more[@]}" \
		>"$WORK/out" 2>&1 || {
		cat "$WORK/out" >&2
		return 1
	}
	awk -v n="$OPERATIONS" '/Collected :/ { printf "%.1f\n", $4 / n; found = 1 }
		END { exit !found }' "$WORK/out"
}

# timed OP BYTES CHANNELS BATCH: sets `rate` and `aa`
timed()
{
	"$top_builddir/tests/bench/instructions" time "$@" "$OPERATIONS" >"$WORK/out" 2>&1 || {
		cat "$WORK/out" >&2
		return 1
	}
	read -r rate aa \
		< <(sed -n 's/^bare .* ratio \([0-9.]*\) aa \([0-9.]*\)$/\1 \2/p' "$WORK/out")
}

# row CALL OP BYTES CHANNELS BATCH DEVICE; CALL: queue, plain or registered
row()
{
	local call=$1 bare library above rate=- aa=-
	shift

	bare=$(count bare "$@")
	library=$(count "${call/queue/rmem}" "$@")
	above=$(awk -v a="$library" -v b="$bare" 'BEGIN { printf "%.1f", a - b }')
	if [ "$4" -eq 32 ] && [ "$5" = roce ]; then
		timed "${@:1:4}"
		echo "$above" >>"$WORK/batched"
	fi
	if [ -n "$JSON" ]; then
		printf '%s{"call":"%s",' "$SEPARATOR" "$call"
		printf '"op":"%s","bytes":%d,"channels":%d,"batch":%d,"device":"%s",' "$@"
		printf '"bare":%s,"librmem":%s,"above":%s,' "$bare" "$library" "$above"
		printf '"rate":%s,"aa":%s}' "${rate/#-/null}" "${aa/#-/null}"
		SEPARATOR=,
	else
		printf '%-10s %-6s %6d %9d %6d %-6s %9s %9s %9s %6s %6s\n' "$call" "$@" "$bare" \
			"$library" \
			"$above" "$rate" "$aa"
	fi
}

SEPARATOR=
if [ -n "$JSON" ]; then
	printf '{"operations":%d,"rows":[' "$OPERATIONS"
else
	printf '%-10s %-6s %6s %9s %6s %-6s %9s %9s %9s %6s %6s\n' \
		call op bytes channels batch device bare librmem above rate A/A
fi
for op in read write; do
	for bytes in 64 4096; do
		for channels in 1 8; do
			for batch in 1 32; do
				row queue "$op" "$bytes" "$channels" "$batch" roce
			done
		done
	done
done
for op in read write; do
	for batch in 1 32; do
		row queue "$op" 64 1 "$batch" iwarp
	done
done
for call in plain registered; do
	for op in read write; do
		for bytes in 64 4096; do
			row "$call" "$op" "$bytes" 1 1 roce
		done
	done
done
worst=$(sort -g "$WORK/batched" | tail -n 1)
if [ -n "$JSON" ]; then
	printf '],"worst":{"instructions":%s}}\n' "$worst"
else
	echo "worst: instructions $worst"
fi
