#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# server calls one at a time and many at once; takes --json, --calls N, --rounds N
#
# Over TCP on loopback, with 1,000 named leases of 4 KiB: calls per second of rmem_alloc(),
# rmem_detach(), rmem_attach(), rmem_destroy() and rmem_ping(), and of the same calls begun at once
# by rmem_calls_begin(); the best of the rounds.  "gain" is how many times as many; "as one" is how
# many times as long all of them take as a lone call that was begun.  The last line has the lowest
# gain.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench calls}" "${top_builddir:?}"
CALLS=1000
ROUNDS=5
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "calls.sh [--json] [--calls N] [--rounds N]" "$@"

make -s -C "$top_builddir" tests/bench/calls >&2
RMEMCTL=$top_builddir/src/rmemctl/rmemctl
export LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PORT=17950
# shellcheck source=tests/bench/lib/daemon.sh
. "$top_srcdir/tests/bench/lib/daemon.sh"
# shellcheck source=tests/bench/lib/programs.sh
. "$top_srcdir/tests/bench/lib/programs.sh"
WORK=$(mktemp -d /tmp/rmem-calls-XXXXXX)
trap programs_end EXIT

daemon_start "$WORK" 127.0.0.1 "$PORT" tcp "[pool main]
size = 256M
page_size = base" "$top_builddir/src/rmemd/rmemd"
"$top_builddir/tests/bench/calls" "rmem://127.0.0.1:$PORT?fabric=tcp" \
	"$CALLS" "$ROUNDS" >"$WORK/rows"

jq -Rcs --argjson n "$CALLS" '
def per_s: 1000000000 / . | round;
def ratio(a; b): a / b * 100 | round / 100;
split("\n") | map(select(. != "") | split(" "))
| map({call: .[0], single: (.[1] | tonumber), batched: (.[2] | tonumber), one: (.[3] | tonumber)})
| map({call, single_per_s: (.single | per_s), batched_per_s: (.batched | per_s),
       gain: ratio(.single; .batched), as_one: ratio(.batched * $n; .one)})
| {calls: $n, rows: ., worst: {gain: (map(.gain) | min)}}' "$WORK/rows" >"$WORK/result"
if [ -n "$JSON" ]; then
	cat "$WORK/result"
	exit 0
fi
printf '%-8s %12s %12s %8s %8s\n' "" "one at a time" "at once" gain "as one"
jq -r '.rows[] | [.call, .single_per_s, .batched_per_s, .gain, .as_one] | map(tostring)
	| join(" ")' \
	"$WORK/result" | while read -r call single batched gain one; do
	printf '%-8s %10s/s %10s/s %8s %8s\n' "$call" "$single" "$batched" "$gain" "$one"
done
jq -r '"worst: gain \(.worst.gain)"' "$WORK/result"
