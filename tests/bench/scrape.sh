#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# a Prometheus that reads the metrics each second
# takes --json, --sessions N, --leases N, --seconds N, --settle N
# packages: prometheus
#
# The daemon has idle sessions without channels, with a heartbeat each 5 s, and leases of 4 KiB.  It
# runs for a while alone, then with a real Prometheus that scrapes it each second, then alone again
# (A/A).
#
# Columns: CPU of the daemon as share of a core, the longest turn of its main loop in CPU time and
# by the clock, and how long Prometheus waited for an answer, on average and at most.
#
# --seconds is the time of each of the three, 300 by default; before the first and the last are
# --settle seconds, 61 by default, as the longest turn is that of the last 30 to 60 seconds.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench scrape}" "${top_builddir:?}"
unset SECONDS # is an ordinary variable afterwards
SECONDS=300
SETTLE=61
SESSIONS=1000
LEASES=0
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "scrape.sh [--json] [--sessions N] [--leases N] [--seconds N] [--settle N]" "$@"
command -v prometheus >/dev/null || {
	echo "scrape: Prometheus is missing: apt-get install prometheus" >&2
	exit 1
}

make -s -C "$top_builddir" tests/bench/{crowd-idle,scrape-leases} >&2
BIN=$top_builddir/tests/bench
RMEMCTL=$top_builddir/src/rmemctl/rmemctl
RMEMD=$top_builddir/src/rmemd/.libs/rmemd
[ -x "$RMEMD" ] || RMEMD=$top_builddir/src/rmemd/rmemd
export LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PORT=17600
# shellcheck source=tests/bench/lib/daemon.sh
. "$top_srcdir/tests/bench/lib/daemon.sh"
# shellcheck source=tests/bench/lib/programs.sh
. "$top_srcdir/tests/bench/lib/programs.sh"
WORK=$(mktemp -d /tmp/rmem-scrape-XXXXXX)
LEG=$WORK
trap programs_end EXIT
ulimit -n "$(ulimit -Hn)"

# nanoseconds of all threads of the daemon
cpu()
{
	cat /proc/"$DAEMON_PID"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}

# leg NAME: measure for a while
leg()
{
	local before end

	before=$(cpu)
	end=$((EPOCHSECONDS + SECONDS))
	while [ "$EPOCHSECONDS" -lt "$end" ]; do
		sleep 5
		daemon_ctl status | jq -c .turns >>"$WORK/$1.turns"
	done
	jq -s --arg name "$1" --argjson ns "$(($(cpu) - before))" --argjson seconds "$SECONDS" \
		'{name: $name, cpu_percent: ($ns / $seconds / 1e7 * 1000 | round / 1000),
		  turn_cpu_us: (map(.cpu_recent_us) | max),
		  turn_wall_us: (map(.wall_recent_us) | max)}' \
		"$WORK/$1.turns"
}

# query EXPRESSION: its value in Prometheus
query()
{
	curl -sS --max-time 20 --data-urlencode "query=$1" \
		"http://127.0.0.1:$((PORT + 3))/api/v1/query" |
		jq '.data.result[0].value[1] | tonumber'
}

daemon_start "$WORK" 127.0.0.1 "$PORT" tcp "[metrics]
listen = 127.0.0.1:$((PORT + 2))
[session]
heartbeat = 10s
fence = 60s
[limits]
sessions = $((2 * SESSIONS + 10))
[tenant default]
leases = $((LEASES + 1))
[pool main]
size = $((64 + LEASES / 128))M" "$RMEMD"
program idle "$BIN/crowd-idle" "$PORT" - "$SESSIONS"
[ "$LEASES" -eq 0 ] ||
	program leases "$BIN/scrape-leases" "rmem://127.0.0.1:$PORT?fabric=tcp" "$LEASES"
cat >"$WORK/prometheus.yml" <<END
global:
  scrape_interval: 1s
  scrape_timeout: 1s
scrape_configs:
  - job_name: rmemd
    static_configs:
      - targets: [ "127.0.0.1:$((PORT + 2))" ]
END
sleep "$SETTLE"
leg alone >"$WORK/alone"
prometheus --config.file="$WORK/prometheus.yml" --storage.tsdb.path="$WORK/tsdb" --log.level=warn \
	--web.listen-address="127.0.0.1:$((PORT + 3))" >"$WORK/prometheus.err" 2>&1 &
PROGRAMS[prometheus]=$!
leg scraped >"$WORK/scraped"
jq -cn --argjson scrapes "$(query 'count_over_time(up[1h])')" \
	--argjson failed "$(query 'count_over_time((up == 0)[1h:1s]) or vector(0)')" \
	--argjson mean "$(query 'avg_over_time(scrape_duration_seconds[1h])')" \
	--argjson most "$(query 'max_over_time(scrape_duration_seconds[1h])')" \
	--argjson samples "$(query scrape_samples_scraped)" \
	'{scrapes: $scrapes, failed: $failed, samples: $samples,
	  mean_ms: ($mean * 1e5 | round / 100), most_ms: ($most * 1e5 | round / 100)}' \
	>"$WORK/waits"
kill "${PROGRAMS[prometheus]}"
wait "${PROGRAMS[prometheus]}" 2>/dev/null || true
unset "PROGRAMS[prometheus]"
sleep "$SETTLE"
leg again >"$WORK/again"
jq -cn --argjson sessions "$SESSIONS" --argjson leases "$LEASES" --argjson seconds "$SECONDS" \
	--slurpfile alone "$WORK/alone" --slurpfile scraped "$WORK/scraped" \
	--slurpfile again "$WORK/again" --slurpfile waits "$WORK/waits" \
	'{sessions: $sessions, leases: $leases, seconds: $seconds,
	  legs: [$alone[0], $scraped[0], $again[0]],
	  prometheus: $waits[0]}
	 | .worst = {cpu_percent_more:
			((.legs[1].cpu_percent - .legs[0].cpu_percent) * 1000 | round / 1000),
		turn_cpu_us_more: (.legs[1].turn_cpu_us - .legs[0].turn_cpu_us)}' >"$WORK/result"
if [ -n "$JSON" ]; then
	cat "$WORK/result"
else
	jq -r '"\(.sessions) sessions, \(.leases) leases, \(.seconds) s each:",
(.legs[] | "  \(.name): \(.cpu_percent) % of a core, longest turn \(.turn_cpu_us) us of the CPU, " +
	"\(.turn_wall_us) us by the clock"),
(.prometheus | "  \(.scrapes) scrapes of \(.samples) series, \(.failed) failed, " +
	"in \(.mean_ms) ms on average, \(.most_ms) ms at most"),
"worst: cpu_percent_more \(.worst.cpu_percent_more) " +
	"turn_cpu_us_more \(.worst.turn_cpu_us_more)"' "$WORK/result"
fi
program_go idle
program_await idle
if [ "$LEASES" -gt 0 ]; then
	program_go leases
	program_await leases
fi
kill "$DAEMON_PID"
wait "$DAEMON_PID" || true
