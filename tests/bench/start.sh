#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# the time to open pools on two NUMA nodes; takes --json, --mib N, --rounds N
#
# In a machine of the rig with two nodes of one CPU each, in milliseconds per GiB: pools opened one
# after the other (serial), by one call as in rmemd (together), and populated by one thread in a
# loop (plain).  The ratio is together to serial, A/A serial to serial.  With two nodes the
# ratio is at least 0.5, and higher when this host has only one free core.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench start}" "${top_builddir:?}"
MIB=256
ROUNDS=9
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "start.sh [--json] [--mib N] [--rounds N]" "$@"

# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
make -s -C "$top_builddir" tests/bench/start >&2
stage

cat >"$WORK/cmd.sh" <<CMD
. "\$1/guest.sh"
exec 3>&1 >&2
guest_install
for pages in 2M base; do
	"\$BUILD/tests/bench/start" \$pages $MIB $ROUNDS 0 1 >&3 || fail \$pages
done
CMD
"$RIG" run --parallel --numa 2 --cpus 2 --device none --hugepages-2m $((MIB / 2)) \
	--node-memory $((2 * MIB + 640)),$((2 * MIB + 640)) --timeout 900 \
	"bash $WORK/cmd.sh $WORK" >"$WORK/rows" || {
	cat "$WORK/rows"
	echo "FAILED: $?" >&2
	exit 1
}

if [ -n "$JSON" ]; then
	jq -cs '{rows: ., worst: {ratio: (map(.ratio) | max)}}' "$WORK/rows"
	exit 0
fi
printf '%-5s | %10s %10s %10s | %6s %6s\n' ms/GiB serial together plain ratio A/A
jq -r '[.pages, .serial_ms, .together_ms, .plain_ms, .ratio, .aa] | map(tostring) | join(" ")' \
	"$WORK/rows" | while read -r pages serial together plain ratio aa; do
	LC_ALL=C printf '%-5s | %10.1f %10.1f %10.1f | %6.3f %6.3f\n' \
		"$pages" "$serial" "$together" "$plain" "$ratio" "$aa"
done
jq -rs '"worst: \(map(.ratio) | max) of the time that one after the other takes"' "$WORK/rows"
