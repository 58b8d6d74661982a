#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# 1,000 clients that reconnect at once, by kind of authentication
# takes --json, --sessions N, --seconds N, --auth "KIND...", --busy N
#
# One program has all the sessions.  It cuts all their control connections, and waits until all are
# resumed: that is a round.  An honest client beside it pings each 4 ms, and 50 more of its sessions
# are idle; they are of another tenant.  Before the first round the client is alone.  With --busy, N
# endless loops run on each core, alone and beside.
#
# Columns:
#   rounds      number of rounds
#   all back    median time of a round, and the longest
#   per second  sessions resumed per second of the median round: program and daemon share this
#               machine
#   resumes     how often a session was resumed in a round; beyond 1 it was lost again meanwhile
#   lost        sessions that were lost for good, in all rounds
#   us each     CPU time of the daemon for a session that is resumed, handshake included
#   refused     connections that were refused for lack of a place, or time, in all rounds
#   p50 p99 max of pings, beside the rounds; each counts from when it was due
#   times       p50 and p99 beside the rounds, divided by those of the client alone
#   turn, long  the longest turn of the daemon's main loop, in CPU time, and turns beyond 2 ms of
#               all
#   fenced      how often an honest session was fenced
#
# --seconds is the duration of a measurement, alone and beside: three kinds take about two minutes.
# The last line has the worst figures.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench rack}" "${top_builddir:?}"
unset SECONDS # is an ordinary variable afterwards
SECONDS=20
SESSIONS=1000
AUTH="none psk certificate"
BUSY=0
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "rack.sh [--json] [--sessions N] [--seconds N] [--auth KINDS] [--busy N]" "$@"

make -s -C "$top_builddir" tests/bench/{idle,rack,fairness-client} >&2
BIN=$top_builddir/tests/bench
RMEMCTL=$top_builddir/src/rmemctl/rmemctl
export LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PORT=17490
HONEST=50
# shellcheck source=tests/bench/lib/daemon.sh
. "$top_srcdir/tests/bench/lib/daemon.sh"
# shellcheck source=tests/bench/lib/auth.sh
. "$top_srcdir/tests/bench/lib/auth.sh"
# shellcheck source=tests/bench/lib/programs.sh
. "$top_srcdir/tests/bench/lib/programs.sh"
WORK=$(mktemp -d /tmp/rmem-rack-XXXXXX)
trap programs_end EXIT
ulimit -n "$(ulimit -Hn)"
# real clients do not use the server's cores
FIRST=()
! chrt --fifo 1 true 2>/dev/null || FIRST=(chrt --fifo 1)
auth_files "$WORK" 127.0.0.1 default honest

daemon_ran_us()
{
	cat /proc/"$DAEMON_PID"/task/*/schedstat |
		awk '{ sum += $1 } END { printf "%.0f\n", sum / 1000 }'
}

# Loops that use the cores, until the leg ends.
busy_start()
{
	local i

	for ((i = 0; i < BUSY * $(nproc); i++)); do
		(while :; do :; done) &
		PROGRAMS[busy$i]=$!
	done
}

busy_stop()
{
	local i

	for ((i = 0; i < BUSY * $(nproc); i++)); do
		kill -KILL "${PROGRAMS[busy$i]}"
		wait "${PROGRAMS[busy$i]}" 2>/dev/null || true
		unset "PROGRAMS[busy$i]"
	done
}

# pings NAME: measure them in the background
pings()
{
	program "$1" "${FIRST[@]}" "$BIN/fairness-client" "$honest" ping 4000 "$SECONDS"
	program_go "$1"
}

# leg KIND: one row
leg()
{
	local kind=$1 uri="rmem://127.0.0.1:$PORT?fabric=tcp" honest ran before after

	LEG=$WORK/$kind
	mkdir "$LEG"
	daemon_start "$LEG" 127.0.0.1 "$PORT" tcp "$(auth_config "$kind" "$WORK" default honest)
[limits]
sessions = $((2 * SESSIONS + HONEST))
[pool main]
size = 64M" "$top_builddir/src/rmemd/rmemd"
	honest="$uri&$(auth_options "$kind" "$WORK" honest)"
	program bystanders "${FIRST[@]}" "$BIN/idle" "$honest" "$HONEST"
	program rack "$BIN/rack" "$uri&$(auth_options "$kind" "$WORK" default)" "$PORT" \
		"$SESSIONS" "$SECONDS"
	busy_start
	pings alone
	program_await alone
	before=$(daemon_ctl status)
	ran=$(daemon_ran_us)
	pings beside
	program_go rack
	program_await beside
	until grep -q round_ms "$LEG/rack.out"; do
		kill -0 "${PROGRAMS[rack]}" || exit 1
		sleep 0.2
	done
	ran=$(($(daemon_ran_us) - ran))
	after=$(daemon_ctl status)
	fenced=$(daemon_ctl sessions | jq '[.sessions[] | select(.tenant == "honest")]
		| map(.resumes + (if .state == "fenced" then 1 else 0 end)) | add // 0')
	busy_stop
	program_await rack
	program_go bystanders
	program_await bystanders
	kill "$DAEMON_PID"
	wait "$DAEMON_PID" || true
	jq -cn --arg auth "$kind" --argjson n "$SESSIONS" --argjson ran "$ran" \
		--argjson fenced "$fenced" \
		--argjson before "$before" --argjson after "$after" \
		--argjson rack "$(grep round_ms "$LEG/rack.out")" \
		--argjson alone "$(grep p50 "$LEG/alone.out")" \
		--argjson beside "$(grep p50 "$LEG/beside.out")" \
		'def median: sort | .[(length - 1) / 2 | floor];
		 def count(path): ($after | path) - ($before | path);
		 {auth: $auth, rounds: ($rack.round_ms | length),
		  round_ms: ($rack.round_ms | median),
		  longest_ms: ($rack.round_ms | max),
		  per_second: (1000 * $n / ($rack.round_ms | median) | round),
		  resumes: ($rack.resumes / $n / ($rack.round_ms | length)),
		  lost: $rack.lost,
		  us_each: ($ran / count(.counters.sessions_resumed) | round),
		  refused: (count(.counters.refused.slot) + count(.counters.refused.late)),
		  pings: {alone: $alone, beside: $beside,
			p50_times: ($beside.p50_us / $alone.p50_us * 100 | round / 100),
			p99_times: ($beside.p99_us / $alone.p99_us * 100 | round / 100)},
		  turn_ms: ($after.turns.cpu_longest_us / 1000),
		  long_percent: (100 * count(.turns.long) / count(.turns.count)), fenced: $fenced}'
}

for kind in $AUTH; do
	leg "$kind" >>"$WORK/rows"
done
jq -cs '{rows: ., worst: {round_ms: (map(.longest_ms) | max), turn_ms: (map(.turn_ms) | max),
	resumes: (map(.resumes) | max), lost: (map(.lost) | add), fenced: (map(.fenced) | add)}}' \
	"$WORK/rows" >"$WORK/result"
if [ -n "$JSON" ]; then
	cat "$WORK/result"
	exit 0
fi
printf '%-12s %6s %9s %9s %10s %7s %5s %8s %8s %8s %8s %8s %6s %6s %8s %6s %6s\n' auth rounds \
	"all back" "longest" "per second" \
	resumes lost "us each" refused "p50 ms" "p99 ms" "max ms" "times" "times" "turn ms" \
	"long %" fenced
jq -r '.rows[] | [.auth, .rounds, .round_ms, .longest_ms, .per_second, .resumes, .lost, .us_each,
	.refused, (.pings.beside | .p50_us, .p99_us, .worst_us), .pings.p50_times, .pings.p99_times,
	.turn_ms, .long_percent, .fenced]
	| map(tostring) | join(" ")' "$WORK/result" |
	LC_ALL=C awk '{
		printf "%-12s %6d %9.0f %9.0f %10.0f", $1, $2, $3, $4, $5
		printf " %7.2f %5d %8.0f %8d", $6, $7, $8, $9
		printf " %8.2f %8.2f %8.2f", $10 / 1000, $11 / 1000, $12 / 1000
		printf " %6.1f %6.1f %8.2f %6.2f %6d\n", $13, $14, $15, $16, $17
	}'
jq -r '.worst | "worst: round_ms \(.round_ms) resumes \(.resumes) lost \(.lost) " +
	"turn_ms \(.turn_ms) fenced \(.fenced)"' "$WORK/result"
