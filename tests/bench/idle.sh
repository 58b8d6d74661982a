#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# the share of a core that rmemd takes for 100 idle sessions
# takes --json, --sessions N, --seconds N, --auth
#
# Heartbeats have their default interval.  The first row is measured over TCP on loopback.  The
# next two, over TCP and over RDMA, are counted in a machine of the rig with --icount, 2 ns for an
# instruction.  That is a slow core, so only the ratio of the two means something: the last row is
# the first one times that ratio, an estimate for RDMA on this machine.
# RMEM_RIG_LEGS="612:rxe" selects kernel and device.
#
# With --auth there is a row for each kind of authentication instead, on this machine over TCP, with
# the daemon's anonymous memory for a session: by what it has grown since it had none.  Try
# --auth --sessions 1000.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench idle}" "${top_builddir:?}"
SESSIONS=100
unset SECONDS # is an ordinary variable afterwards
SECONDS=60
AUTH=
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "idle.sh [--json] [--sessions N] [--seconds N] [--auth]" "$@"

# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
# shellcheck source=tests/bench/lib/auth.sh
. "$top_srcdir/tests/bench/lib/auth.sh"
make -s -C "$top_builddir" tests/bench/idle >&2
[ -n "$AUTH" ] || stage

# measure RMEMD RMEMCTL ADDRESS FABRIC DIR N SECONDS [CONFIGURATION URI_OPTIONS]: one row
cat >"$WORK/measure" <<'MEASURE'
set -euo pipefail
. "$top_srcdir/tests/bench/lib/daemon.sh"
RMEMCTL=$2 address=$3 fabric=$4 n=$6 seconds=$7
trap 'kill $DAEMON_PID 2>/dev/null || true' EXIT
daemon_start "$5" "$address" 17460 "$fabric" "[limits]
sessions = $((2 * n + 8))
[pool main]
size = 16M
${8-}" "$1"
ulimit -n "$(ulimit -Hn)"
# its anonymous memory in KiB
memory()
{
	awk '/^Anonymous:/ { print $2 }' "/proc/$DAEMON_PID/smaps_rollup"
}
# CPU time of its threads in nanoseconds
ran()
{
	cat /proc/$DAEMON_PID/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}
memory=$(memory)
coproc PROGRAM {
	exec "$BUILD/tests/bench/idle" "rmem://$address:17460?fabric=$fabric${9:+&$9}" "$n"
}
# bash unsets the variable when the process ends
program=$PROGRAM_PID to=${PROGRAM[1]}
read -r line <&"${PROGRAM[0]}"
[ "$line" = idle ]
sleep 2
before=$(ran) start=$(date +%s%N)
sleep "$seconds"
after=$(ran) end=$(date +%s%N)
memory=$(($(memory) - memory))
echo >&"$to"
wait "$program"
kill "$DAEMON_PID"
wait "$DAEMON_PID"
trap - EXIT
jq -cn --arg fabric "$fabric" --argjson sessions "$n" --argjson ran $((after - before)) \
	--argjson took $((end - start)) --argjson memory "$memory" \
	'{fabric: $fabric, sessions: $sessions, seconds: ($took / 1e9 | round),
	  percent_of_core: ($ran / $took * 1e5 | round / 1e3),
	  kib_per_session: ($memory / $sessions * 10 | round / 10)}'
MEASURE

if [ -n "$AUTH" ]; then
	RMEMCTL=$top_builddir/src/rmemctl/rmemctl
	export LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	auth_files "$WORK" 127.0.0.1 default
	for kind in none psk certificate; do
		mkdir "$WORK/$kind"
		BUILD=$top_builddir bash "$WORK/measure" \
			"$top_builddir/src/rmemd/rmemd" "$RMEMCTL" 127.0.0.1 tcp \
			"$WORK/$kind" "$SESSIONS" "$SECONDS" \
			"$(auth_config "$kind" "$WORK" default)" \
			"$(auth_options "$kind" "$WORK" default)" >"$WORK/row"
		jq -c --arg auth "$kind" '{auth: $auth} + .' "$WORK/row" >>"$WORK/rows"
	done
	jq -cs '.[0] as $none | {rows: map(. + {times_of_none:
			(.percent_of_core / $none.percent_of_core * 100 | round / 100)}),
		worst: {kib_per_session: (map(.kib_per_session) | max)}}' "$WORK/rows" \
		>"$WORK/result"
	[ -z "$JSON" ] || { cat "$WORK/result" && exit 0; }
	jq -r '(.rows[] | "auth = \(.auth): \(.sessions) idle sessions take " +
			"\(.kib_per_session) KiB each and \(.percent_of_core) % of a core over " +
			"\(.seconds) s, \(.times_of_none) times that of none"),
		"worst: KiB per session \(.worst.kib_per_session)"' "$WORK/result"
	exit 0
fi

mkdir "$WORK/tcp"
BUILD=$top_builddir bash "$WORK/measure" "$top_builddir/src/rmemd/rmemd" \
	"$top_builddir/src/rmemctl/rmemctl" 127.0.0.1 tcp "$WORK/tcp" "$SESSIONS" "$SECONDS" \
	>"$WORK/row"
jq -c '{where: "this machine"} + .' "$WORK/row" >"$WORK/rows"
for leg in $(legs 612:rxe); do
	cat >"$WORK/cmd.sh" <<-CMD
		. "\$1/guest.sh"
		exec 3>&1 >&2
		guest_install
		export BUILD
		mkdir /tmp/idle
		for fabric in tcp rdma; do
			bash "\$1/measure" rmemd rmemctl "\$RIG_ADDR" \$fabric /tmp/idle \
				$SESSIONS $SECONDS >&3 ||
				{ tail -n 20 /tmp/idle/rmemd.log; fail "\$fabric"; }
		done
	CMD
	"$RIG" run --icount --kernel "${leg%:*}" --device "${leg#*:}" --timeout 900 \
		"bash $WORK/cmd.sh $WORK" >"$WORK/row"
	jq -c --arg leg "$leg" '{where: ($leg + ", by instructions")} + .' "$WORK/row" \
		>>"$WORK/rows"
done
jq -cs '.[0].percent_of_core as $here | group_by(.where)[] | select(length == 2)
	| (map({(.fabric): .percent_of_core}) | add) as $vm
	| {where: "this machine, estimated by the ratio of those two", fabric: "rdma",
	   sessions: .[0].sessions, seconds: .[0].seconds,
	   percent_of_core: ($here * $vm.rdma / $vm.tcp * 1e3 | round / 1e3)}' \
	"$WORK/rows" >"$WORK/estimate"
cat "$WORK/estimate" >>"$WORK/rows"
worst='map(select(.where | startswith("this machine")).percent_of_core) | max'
if [ -n "$JSON" ]; then
	jq -cs "{rows: ., worst: {percent_of_core: ($worst)}}" "$WORK/rows"
else
	jq -r '"\(.sessions) idle sessions, \(.fabric), \(.where): " +
		"\(.percent_of_core) % of a core over \(.seconds) s"' "$WORK/rows"
	jq -rs "\"worst: percent of a core \\($worst)\"" "$WORK/rows"
fi
