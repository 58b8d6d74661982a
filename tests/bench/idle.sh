#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What 100 sessions cost that do nothing: rmemd's share of a core, heartbeats at their default
# included; takes --json, --sessions N, --seconds N
#
# Over TCP on loopback of this machine; then over TCP and over RDMA in a machine of the rig
# that counts instructions, 2 ns each.  That core is a slow one, so of those two it is their
# ratio that counts: by it a last row reckons what RDMA would take here.
# RMEM_RIG_LEGS="612:rxe" says on which kernel and device.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench idle}" "${top_builddir:?}"
JSON=
SESSIONS=100
LENGTH=60
while [ $# -gt 0 ]; do
	case $1 in
	--json) JSON=yes ;;
	--sessions)
		SESSIONS=${2:?}
		shift
		;;
	--seconds)
		LENGTH=${2:?}
		shift
		;;
	*)
		echo "usage: idle.sh [--json] [--sessions N] [--seconds N]" >&2
		exit 2
		;;
	esac
	shift
done

# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
make -s -C "$top_builddir" tests/bench/idle >&2
stage

# measure RMEMD RMEMCTL ADDRESS FABRIC DIR N SECONDS: one row
cat >"$WORK/measure" <<'MEASURE'
set -euo pipefail
rmemd=$1 rmemctl=$2 address=$3 fabric=$4 dir=$5 n=$6 seconds=$7
cat >"$dir/idle.conf" <<-CONF
	[server]
	listen = $address
	port = 17460
	insecure = yes
	[limits]
	sessions = $((n + 8))
	[tcp]
	port = 17461
	[rdma]
	enabled = $([ "$fabric" = rdma ] && echo yes || echo no)
	[admin]
	socket = $dir/idle.sock
	[pool main]
	size = 16M
CONF
"$rmemd" --config "$dir/idle.conf" >"$dir/idle.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
for ((i = 0; i < 600; i++)); do
	! "$rmemctl" --socket "$dir/idle.sock" status >/dev/null 2>&1 || break
	sleep 0.1
done
# nanoseconds that its threads have run
ran()
{
	cat /proc/$server/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}
coproc PROGRAM { exec "$BUILD/tests/bench/idle" "rmem://$address:17460?fabric=$fabric" "$n"; }
# bash forgets it once it has ended
program=$PROGRAM_PID to=${PROGRAM[1]}
read -r line <&"${PROGRAM[0]}"
[ "$line" = idle ]
sleep 2
before=$(ran) start=$(date +%s%N)
sleep "$seconds"
after=$(ran) end=$(date +%s%N)
echo >&"$to"
wait "$program"
kill "$server"
wait "$server"
trap - EXIT
jq -cn --arg fabric "$fabric" --argjson sessions "$n" --argjson ran $((after - before)) \
	--argjson took $((end - start)) \
	'{fabric: $fabric, sessions: $sessions, seconds: ($took / 1e9 | round),
	  percent_of_core: ($ran / $took * 1e5 | round / 1e3)}'
MEASURE

mkdir "$WORK/tcp"
ROOT=$WORK/root
RMEMD=$(find "$ROOT" -name rmemd -type f -perm -u+x | head -n 1)
RMEMCTL=$(find "$ROOT" -name rmemctl -type f -perm -u+x | head -n 1)
LIBS=$(dirname "$(find "$ROOT" -name 'librmem.so.*' | head -n 1)")
BUILD=$top_builddir LD_LIBRARY_PATH=$LIBS bash "$WORK/measure" "$RMEMD" "$RMEMCTL" 127.0.0.1 \
	tcp "$WORK/tcp" "$SESSIONS" "$LENGTH" >"$WORK/row"
jq -c '{where: "this machine"} + .' "$WORK/row" >"$WORK/rows"
for leg in $(legs 612:rxe); do
	cat >"$WORK/cmd.sh" <<-CMD
		. "\$1/guest.sh"
		exec 3>&1 >&2
		guest_install
		export BUILD
		mkdir /tmp/idle
		for fabric in tcp rdma; do
			bash "\$1/measure" rmemd rmemctl "\$RIG_ADDR" \$fabric /tmp/idle $SESSIONS $LENGTH >&3 ||
				{ tail -n 20 /tmp/idle/idle.log; fail "\$fabric"; }
		done
	CMD
	"$RIG" run --icount --kernel "${leg%:*}" --device "${leg#*:}" --timeout 900 \
		"bash $WORK/cmd.sh $WORK" >"$WORK/row"
	jq -c --arg leg "$leg" '{where: ($leg + ", by instructions")} + .' "$WORK/row" \
		>>"$WORK/rows"
done
jq -cs '.[0].percent_of_core as $here | group_by(.where)[] | select(length == 2)
	| (map({(.fabric): .percent_of_core}) | add) as $vm
	| {where: "this machine, by the ratio of the two there", fabric: "rdma",
	   sessions: .[0].sessions, seconds: .[0].seconds,
	   percent_of_core: ($here * $vm.rdma / $vm.tcp * 1e3 | round / 1e3)}' \
	"$WORK/rows" >"$WORK/reckoned"
cat "$WORK/reckoned" >>"$WORK/rows"
# on this machine's core
worst='map(select(.where | startswith("this machine")).percent_of_core) | max'
if [ -n "$JSON" ]; then
	jq -cs "{rows: ., worst: {percent_of_core: ($worst)}}" "$WORK/rows"
else
	jq -r '"\(.sessions) idle sessions, \(.fabric), \(.where): \(.percent_of_core) % of a core over \(.seconds) s"' \
		"$WORK/rows"
	jq -rs "\"worst: percent of a core \\($worst)\"" "$WORK/rows"
fi
