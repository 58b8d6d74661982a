#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# How long grants and frees take, by size, against a ping; takes --json, --rounds N, --steps N,
# --seed N
#
# Over TCP on loopback of this machine, by the calls of librmem: rmem_alloc() and rmem_free(), and
# as many rmem_ping(), which is a round trip on the same control connection, all in an order drawn
# at random.  Before a round it is waited until all memory is clean.  Ratios are those of the
# medians: of the slowest size's grants to the fastest's, and of each kind to the pings between
# them; A/A is that of one half of those pings to the other.  Over TCP nothing is registered.
# Takes 9 GiB of memory.
set -euo pipefail

: "${top_builddir:?is set by ./dev bench grant}"
JSON=
SEED=$RANDOM
ROUNDS=40
STEPS=30
SIZES=(4096 65536 $((2 << 20)) $((1 << 30)))
while [ $# -gt 0 ]; do
	case $1 in
	--json) JSON=yes ;;
	--rounds)
		ROUNDS=${2:?}
		shift
		;;
	--steps)
		STEPS=${2:?}
		shift
		;;
	--seed)
		SEED=${2:?}
		shift
		;;
	*)
		echo "usage: grant.sh [--json] [--rounds N] [--steps N] [--seed N]" >&2
		exit 2
		;;
	esac
	shift
done
make -s -C "$top_builddir" tests/bench/grant >&2
WORK=$(mktemp -d)
SERVER=
finish()
{
	[ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null || true
	rm -rf "$WORK"
}
trap finish EXIT
cat >"$WORK/rmemd.conf" <<-CONF
	[server]
	listen = 127.0.0.1
	port = 17470
	[tcp]
	port = 17471
	[rdma]
	enabled = no
	[admin]
	socket = $WORK/admin.sock
	[pool main]
	size = 8G
CONF
"$top_builddir/src/rmemd/rmemd" --config "$WORK/rmemd.conf" >"$WORK/log" 2>&1 &
SERVER=$!
ctl()
{
	"$top_builddir/src/rmemctl/rmemctl" --socket "$WORK/admin.sock" --json "$@"
}
until ctl status >/dev/null 2>&1; do
	kill -0 "$SERVER" 2>/dev/null || {
		cat "$WORK/log" >&2
		exit 1
	}
	sleep 0.1
done
PAGES=$(ctl pools | jq -r '.pools[0].pages')

coproc PROGRAM { exec "$top_builddir/tests/bench/grant" rmem://127.0.0.1:17470?fabric=tcp "$SEED" "$ROUNDS" "$STEPS" "${SIZES[@]}"; }
# bash forgets it once it has ended
program=$PROGRAM_PID
exec 3<&"${PROGRAM[0]}" 4>&"${PROGRAM[1]}"
while read -r line <&3 && [ "$line" = next ]; do
	until [ "$(ctl pools | jq '.pools[0].scrubbing_bytes')" = 0 ]; do
		sleep 0.02
	done
	echo >&4
done
[ "$line" = "done" ]
cat <&3 >"$WORK/rows"
wait "$program"
kill "$SERVER"
wait "$SERVER"
SERVER=

jq -Rcs --arg pages "$PAGES" --argjson rounds "$ROUNDS" --argjson seed "$SEED" '
def us: . / 10 | round / 100;
def ratio(a; b): a / b * 1000 | round / 1000;
split("\n") | map(select(. != "") | split(" ") | [.[0], (.[1:][] | tonumber)]
	| {what: .[0], bytes: .[1], n: .[2], p50_us: (.[3] | us), p99_us: (.[4] | us)})
| (map({(.what): .p50_us}) | add) as $p50
| map(if (.what | startswith("again")) then . + {ratio: ratio(.p50_us; $p50[.what | sub("again"; "ping")])}
	elif .what == "alloc" then . + {ratio: ratio(.p50_us; ($p50.ping + $p50.again) / 2)}
	elif .what == "free" then . + {ratio: ratio(.p50_us; ($p50["ping-free"] + $p50["again-free"]) / 2)}
	else . + {ratio: 1} end)
| map(select(.what == "alloc")) as $allocs | map(select(.what == "free")) as $frees
| {pages: $pages, rounds: $rounds, seed: $seed, rows: .,
   aa: (map(select(.what | startswith("again")).ratio)),
   worst: {size: ratio($allocs | map(.p50_us) | max; $allocs | map(.p50_us) | min),
	   ping: ($allocs + $frees | map(.ratio) | max)}}' \
	"$WORK/rows" >"$WORK/result"
if [ -n "$JSON" ]; then
	cat "$WORK/result"
	exit 0
fi
printf '%-10s %11s %6s %9s %9s %7s\n' "" bytes n "p50 us" "p99 us" ratio
jq -r '.rows[] | [.what, .bytes, .n, .p50_us, .p99_us, .ratio] | map(tostring) | join(" ")' \
	"$WORK/result" | while read -r what bytes n p50 p99 ratio; do
	LC_ALL=C printf '%-10s %11s %6s %9.2f %9.2f %7.3f\n' \
		"$what" "$bytes" "$n" "$p50" "$p99" "$ratio"
done
jq -r '"A/A of the pings \(.aa | join(", ")), pages \(.pages), seed \(.seed)",
	"worst: size \(.worst.size) ping \(.worst.ping)"' "$WORK/result"
