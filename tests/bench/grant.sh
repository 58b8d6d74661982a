#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# the time of grants and frees, by size, against a ping
# takes --json, --rdma, --rounds N, --steps N, --seed N
#
# Over TCP on loopback, where nothing is registered; takes 9 GiB of memory.  A round makes calls of
# rmem_alloc(), rmem_destroy() and, as often, rmem_ping(), a round trip on the same control
# connection, in a random order.  A round starts when all freed memory is zeroed.  Ratios are of
# medians: the slowest size's grants to the fastest's, and each kind to the pings between its
# calls; A/A is one half of those pings to the other.
#
# With --rdma: over soft-RoCE in a machine of the rig, sizes up to 256 MiB.  There the device
# registers each lease.  After each grant librmem registers and deregisters local memory of that
# size; the table shows these times, and the ratios are of grants and frees without them.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench grant}" "${top_builddir:?}"
RDMA=
SEED=$RANDOM
ROUNDS=40
STEPS=30
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "grant.sh [--json] [--rdma] [--rounds N] [--steps N] [--seed N]" "$@"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
make -s -C "$top_builddir" tests/bench/grant >&2
stage

# measure BIN RMEMD RMEMCTL ADDRESS FABRIC DIR MIB ARGUMENTS...: the rows
cat >"$WORK/measure" <<'MEASURE'
set -euo pipefail
. "$top_srcdir/tests/bench/lib/daemon.sh"
program=$1 RMEMCTL=$3 address=$4 fabric=$5
trap 'kill $DAEMON_PID 2>/dev/null || true' EXIT
daemon_start "$6" "$address" 17470 "$fabric" "[pool main]
size = ${7}M" "$2"
shift 7
daemon_ctl pools | jq -r '"pages \(.pools[0].pages)"'
coproc PROGRAM { exec "$program" "rmem://$address:17470?fabric=$fabric" "$@"; }
# bash unsets the variable when the process ends
pid=$PROGRAM_PID
exec 3<&"${PROGRAM[0]}" 4>&"${PROGRAM[1]}"
while read -r line <&3 && [ "$line" = next ]; do
	until [ "$(daemon_ctl pools | jq '.pools[0].scrubbing_bytes')" = 0 ]; do
		sleep 0.02
	done
	echo >&4
done
[ "$line" = "done" ]
cat <&3
wait "$pid"
kill "$DAEMON_PID"
wait "$DAEMON_PID"
trap - EXIT
MEASURE

if [ -n "$RDMA" ]; then
	SIZES=(4096 65536 $((2 << 20)) $((256 << 20)))
	cat >"$WORK/cmd.sh" <<-CMD
		. "\$1/guest.sh"
		exec 3>&1 >&2
		guest_install
		mkdir /tmp/grant
		bash "\$1/measure" "\$BUILD/tests/bench/grant" rmemd rmemctl \
			"\$RIG_ADDR" rdma /tmp/grant 1024 \
			$SEED $ROUNDS $STEPS $((768 << 20)) ${SIZES[@]} >&3 ||
			{ tail -n 20 /tmp/grant/rmemd.log; fail grant; }
	CMD
	"$RIG" run --parallel --memory 3072 --timeout 900 "bash $WORK/cmd.sh $WORK" >"$WORK/rows"
else
	SIZES=(4096 65536 $((2 << 20)) $((1 << 30)))
	mkdir "$WORK/tcp"
	bash "$WORK/measure" "$top_builddir/tests/bench/grant" "$top_builddir/src/rmemd/rmemd" \
		"$top_builddir/src/rmemctl/rmemctl" 127.0.0.1 tcp "$WORK/tcp" 8192 \
		"$SEED" "$ROUNDS" "$STEPS" $((6 << 30)) "${SIZES[@]}" >"$WORK/rows" || {
		cat "$WORK/tcp/rmemd.log" >&2
		exit 1
	}
fi

jq -Rcs --arg fabric "${RDMA:+rdma}" --argjson rounds "$ROUNDS" --argjson seed "$SEED" '
def us: . / 10 | round / 100;
def ratio(a; b): a / b * 1000 | round / 1000;
split("\n") | map(select(. != "") | split(" ")) | (.[0][1]) as $pages | .[1:]
| map([.[0], (.[1:][] | tonumber)]
	| {what: .[0], bytes: .[1], n: .[2], p50_us: (.[3] | us), p99_us: (.[4] | us)})
| (map({("\(.what) \(.bytes)"): .p50_us}) | add) as $p50
| (($p50["ping 0"] + $p50["again 0"]) / 2) as $ping
| (($p50["ping-free 0"] + $p50["again-free 0"]) / 2) as $ping_free
| map(. + {ratio: (
	if .what == "again" then ratio(.p50_us; $p50["ping 0"])
	elif .what == "again-free" then ratio(.p50_us; $p50["ping-free 0"])
	elif .what == "alloc" then ratio(.p50_us - ($p50["register \(.bytes)"] // 0); $ping)
	elif .what == "free" then ratio(.p50_us - ($p50["deregister \(.bytes)"] // 0); $ping_free)
	else null end)})
| map(select(.what == "alloc").ratio) as $grants
| {fabric: (if $fabric == "" then "tcp" else $fabric end), pages: $pages, rounds: $rounds,
   seed: $seed, rows: ., aa: map(select(.what | startswith("again")).ratio),
   worst: {size: ratio($grants | max; $grants | min),
	   ping: (map(select(.what == "alloc" or .what == "free").ratio) | max)}}' \
	"$WORK/rows" >"$WORK/result"
if [ -n "$JSON" ]; then
	cat "$WORK/result"
	exit 0
fi
printf '%-10s %11s %6s %9s %9s %7s\n' "" bytes n "p50 us" "p99 us" ratio
jq -r '.rows[] | [.what, .bytes, .n, .p50_us, .p99_us, (.ratio // "-")] |
	map(tostring) | join(" ")' \
	"$WORK/result" | while read -r what bytes n p50 p99 ratio; do
	LC_ALL=C printf '%-10s %11s %6s %9.2f %9.2f %7s\n' \
		"$what" "$bytes" "$n" "$p50" "$p99" "$ratio"
done
jq -r '"\(.fabric), A/A of the pings \(.aa | join(", ")), pages \(.pages), seed \(.seed)",
	"worst: size \(.worst.size) ping \(.worst.ping)"' "$WORK/result"
