#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# 10,000 idle sessions and 1,000 that come and go
# takes --json, --idle N, --churn N, --pause-ms N, --seconds N, --auth none|psk
#
# Sessions are under TLS with pre-shared keys, on loopback.  The idle ones have no channels, and a
# heartbeat each 5 s.  The honest client is of another tenant; it pings, writes 4 KiB and opens a
# session, alone and then beside the others.  The sessions that come and go are those of four
# programs, each of which closes its oldest session and opens another, each 40 ms: a session lives
# for 10 s.  --pause-ms 0: as fast as it can, so that the daemon is busy all the time, and the
# programs take the cores of this machine.
#
# Columns: median and 99th percentile of the honest client alone and beside them, and their ratios;
# then the daemon's anonymous memory with the idle sessions, at a tenth of the time, and the most
# and the last after that; sessions opened; the longest turn of the main loop in CPU time; how often
# an honest session was fenced.
#
# The daemon needs 2 descriptors for a session: where no more than 20,000 may be open, --idle 8500.
# --seconds is the time beside them, 300 by default; alone it is 20 s at most.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench crowd}" "${top_builddir:?}"
unset SECONDS # is an ordinary variable afterwards
SECONDS=300
IDLE=10000
CHURN=1000
PAUSE_MS=40
AUTH=psk
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "crowd.sh [--json] [--idle N] [--churn N] [--pause-ms N] [--seconds N] [--auth KIND]" "$@"

make -s -C "$top_builddir" tests/bench/{crowd,crowd-idle,idle,fairness-client} >&2
BIN=$top_builddir/tests/bench
RMEMCTL=$top_builddir/src/rmemctl/rmemctl
export LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PORT=17500
CHURNERS=4
# shellcheck source=tests/bench/lib/daemon.sh
. "$top_srcdir/tests/bench/lib/daemon.sh"
# shellcheck source=tests/bench/lib/auth.sh
. "$top_srcdir/tests/bench/lib/auth.sh"
# shellcheck source=tests/bench/lib/programs.sh
. "$top_srcdir/tests/bench/lib/programs.sh"
WORK=$(mktemp -d /tmp/rmem-crowd-XXXXXX)
LEG=$WORK
trap programs_end EXIT
ulimit -n "$(ulimit -Hn)"
# real clients do not use the server's cores
FIRST=()
! chrt --fifo 1 true 2>/dev/null || FIRST=(chrt --fifo 1)
auth_files "$WORK" 127.0.0.1 default honest

# KiB of anonymous memory
memory()
{
	awk '/^Anonymous:/ { print $2 }' "/proc/$DAEMON_PID/smaps_rollup"
}

# honest NAME SECONDS: start its operations; their results are in NAME-OPERATION.out
honest()
{
	local op interval

	for op in ping write open; do
		interval=4000
		[ "$op" != open ] || interval=100000
		program "$1-$op" "${FIRST[@]}" "$BIN/fairness-client" "$honest" "$op" "$interval" \
			"$2"
	done
	for op in ping write open; do
		program_go "$1-$op"
	done
}

honest_await()
{
	local op

	for op in ping write open; do
		program_await "$1-$op"
	done
	grep -h p50 "$WORK/$1"-*.out | jq -cs 'map({(.op): .}) | add' >"$WORK/$1"
}

daemon_start "$WORK" 127.0.0.1 "$PORT" tcp \
	"$(auth_config "$AUTH" "$WORK" default honest | sed '/^\[tenant/a reserve = 1%')
[session]
heartbeat = 10s
fence = 60s
[limits]
sessions = $((2 * (IDLE + CHURN)))
[pool main]
size = 64M" "$top_builddir/src/rmemd/rmemd"
honest="rmem://127.0.0.1:$PORT?fabric=tcp&$(auth_options "$AUTH" "$WORK" honest)"
others="rmem://127.0.0.1:$PORT?fabric=tcp&$(auth_options "$AUTH" "$WORK" default)"
honest alone $((SECONDS < 20 ? SECONDS : 20))
honest_await alone
program bystanders "${FIRST[@]}" "$BIN/idle" "$honest" 20
before=$(memory)
psk=-
[ "$AUTH" = none ] || psk=$WORK/default.psk
program idle "$BIN/crowd-idle" "$PORT" "$psk" "$IDLE"
idle=$(memory)
for ((i = 0; i < CHURNERS; i++)); do
	program "churn-$i" "$BIN/crowd" "$others" $((CHURN / CHURNERS)) "$SECONDS" "$PAUSE_MS"
done
honest beside "$SECONDS"
for ((i = 0; i < CHURNERS; i++)); do
	program_go "churn-$i"
done
for ((i = 1; i <= 10; i++)); do
	sleep $((SECONDS / 10))
	memory
done >"$WORK/memory"
honest_await beside
for ((i = 0; i < CHURNERS; i++)); do
	program_await "churn-$i"
done
turn=$(daemon_ctl status | jq '.turns.cpu_longest_us / 1000')
fenced=$(daemon_ctl sessions | jq '[.sessions[] | select(.tenant == "honest")]
	| map(.resumes + (if .state == "fenced" then 1 else 0 end)) | add // 0')
opened=$(grep -h opened "$WORK"/churn-*.out | jq -s 'map(.opened) | add')
jq -cn --arg auth "$AUTH" --argjson idle "$IDLE" --argjson churn "$CHURN" \
	--argjson seconds "$SECONDS" \
	--slurpfile alone "$WORK/alone" --slurpfile beside "$WORK/beside" \
	--slurpfile kib "$WORK/memory" \
	--argjson none "$before" --argjson quiet "$idle" --argjson opened "$opened" \
	--argjson turn "$turn" \
	--argjson fenced "$fenced" \
	'def times(path): ($beside[0] | path) / ($alone[0] | path) * 100 | round / 100;
	 {auth: $auth, idle: $idle, churn: $churn, seconds: $seconds,
	  alone: $alone[0], beside: $beside[0],
	  times: {ping: [times(.ping.p50_us), times(.ping.p99_us)],
		write: [times(.write.p50_us), times(.write.p99_us)],
		open: [times(.open.p50_us), times(.open.p99_us)]},
	  memory_kib: {none: $none, idle: $quiet, first: $kib[0], most: ($kib | max),
		last: $kib[-1]},
	  opened: $opened, turn_ms: $turn, fenced: $fenced}
	 | .worst = {times_median: ([.times[][0]] | max),
		memory_times: (.memory_kib | .most / .first * 100 | round / 100),
		fenced: .fenced}' >"$WORK/result"
if [ -n "$JSON" ]; then
	cat "$WORK/result"
else
	jq -r 'def row(op): "  \(op)   alone \(.alone[op] | "\(.p50_us) \(.p99_us)")" +
	"   beside \(.beside[op] | "\(.p50_us) \(.p99_us), failed \(.failed)")" +
	"   times \(.times[op] | "\(.[0]) \(.[1])")";
"\(.idle) idle sessions, \(.churn) that come and go, auth = \(.auth), \(.seconds) s; " +
	"microseconds, p50 and p99:",
row("ping"), row("write"), row("open"),
"  memory of rmemd in KiB: \(.memory_kib.none) before, \(.memory_kib.idle) with the idle, " +
	"\(.memory_kib.first) at a tenth, then \(.memory_kib.most) at most, " +
	"\(.memory_kib.last) at last",
"  \(.opened) sessions were opened; longest turn \(.turn_ms) ms; fenced \(.fenced)",
"worst: times_median \(.worst.times_median) memory_times \(.worst.memory_times) " +
	"fenced \(.worst.fenced)"' "$WORK/result"
fi
program_go idle
program_go bystanders
program_await bystanders
program_await idle
kill "$DAEMON_PID"
wait "$DAEMON_PID" || true
