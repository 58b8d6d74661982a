#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# an honest client beside clients that attack the daemon
# takes --json, --seconds N, --attacks "NAME...", --rdma
#
# The honest client pings and writes 4 KiB each millisecond, from two sessions, and opens a session
# each 50 ms; 100 more of its sessions are idle.  The time of an operation begins when it is due, so
# that all operations that a stall delays count.  The attackers are of another tenant.  Each attack
# has its own daemon and row; before the first attack and after the last one the client is alone.
#
#   waiters      30,000 leases of 4 KiB, and 8,000 requests that wait for memory to be zeroed
#   list         200 sessions list 65,000 leases
#   rack         200 sessions with 65,000 leases die at once: silently, then by hanging up
#   checksums    channels over TCP full of CRC-32C requests, closed while they are full
#   connections  connections without a hello, to both ports, as fast as possible
#   hellos       sessions that are opened and abandoned, as fast as possible
#   leases       rmemctl leases each second, at 65,000 leases
#   watchers     500 sessions watch a lease that four of them notify without a pause
#   channels     eight sessions open, use and close 16 channels each, under TLS as all others
#   labels       65,000 named leases, each made in a session with a label of its own, which are
#                removed and made again, beside rmemctl sessions and leases each second
#   names        700 sessions attach and watch 290 named leases, which are removed and made again
#   halfopen     64 rdma_cm connections that are never completed; only with --rdma
#
# Columns:
#   above    the client's p99.9 less the lower of its two p99.9 alone; in the rows alone this is the
#            noise of the machine
#   turn     the longest turn of the daemon's main loop, in CPU time, from rmemctl status
#   fenced   number of times that an honest session was fenced
#   failed   number of the client's operations that failed
#   done, refused  numbers of the attackers' operations
# The last line has the worst of pings and writes, over all attacks; the targets are 20 ms, 5 ms and
# 0.
#
# Takes some 5 minutes and 3 GiB of memory, over TCP on loopback.  --seconds is the duration of one
# measurement.  With --rdma: halfopen alone, over soft-RoCE in a machine of the rig, where all times
# are longer and the client pings and writes each 20 ms.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench fairness}" "${top_builddir:?}"
unset SECONDS # is an ordinary variable afterwards
SECONDS=15
ATTACKS="waiters list rack checksums connections hellos leases watchers channels labels names"
RDMA=
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "fairness.sh [--json] [--seconds N] [--attacks NAMES] [--rdma]" "$@"

[ "$SECONDS" -gt 0 ] || {
	echo "fairness: --seconds $SECONDS: at least 1" >&2
	exit 2
}
known=" waiters list rack checksums connections hellos leases watchers channels labels names "
for attack in $ATTACKS; do
	[[ $known == *" $attack "* ]] || {
		echo "fairness: no attack '$attack'; --attacks takes some of:$known" >&2
		exit 2
	}
done
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
make -s -C "$top_builddir" tests/bench/idle \
	tests/bench/fairness-{channels,checksums,client,connections} \
	tests/bench/fairness-{halfopen,hellos,holder,labels,lister,names,waiters,watchers} >&2

# run ATTACK...: the rows, with those of the client alone
cat >"$WORK/run" <<'RUN'
set -euo pipefail
export LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
. "$top_srcdir/tests/bench/lib/fairness.sh"
trap legs_end EXIT
ulimit -n "$(ulimit -Hn)"
for attack in alone "$@" again; do
	leg "$attack"
done
RUN

if [ -n "$RDMA" ]; then
	stage >&2
	cat >"$WORK/cmd.sh" <<-CMD
		. "\$1/guest.sh"
		exec 3>&1 >&2
		guest_install
		mkdir /tmp/fairness
		export BIN=\$BUILD/tests/bench RMEMD=rmemd RMEMCTL=rmemctl
		export ADDRESS=\$RIG_ADDR FABRIC=rdma
		export DIR=/tmp/fairness SECONDS_EACH=$SECONDS INTERVAL_US=20000
		bash "\$1/run" halfopen >&3 || fail halfopen
	CMD
	for leg in $(legs 612:rxe); do
		"$RIG" run --kernel "${leg%:*}" --device "${leg#*:}" --memory 4096 --timeout 900 \
			"bash $WORK/cmd.sh $WORK" >"$WORK/rows"
	done
else
	mkdir "$WORK/legs"
	export top_srcdir top_builddir BIN=$top_builddir/tests/bench
	export RMEMD=${RMEMD:-$top_builddir/src/rmemd/rmemd} \
		RMEMCTL=${RMEMCTL:-$top_builddir/src/rmemctl/rmemctl}
	export ADDRESS=127.0.0.1 FABRIC=tcp DIR=$WORK/legs SECONDS_EACH=$SECONDS INTERVAL_US=1000
	# shellcheck disable=SC2086 # a list
	bash "$WORK/run" $ATTACKS >"$WORK/rows"
fi

jq -cs '
def ms: . / 10 | round / 100;
def is_alone: .attack == "alone" or .attack == "again";
(map(select(is_alone)) | {ping: (map(.ops.ping.p999_us) | min),
	write: (map(.ops.write.p999_us) | min),
	open: (map(.ops.open.p999_us) | min)}) as $alone
| map(.ops |= with_entries(.key as $op | .value |= {
	n, failed, p50_ms: (.p50_us | ms), p99_ms: (.p99_us | ms), p999_ms: (.p999_us | ms),
	worst_ms: (.worst_us | ms), above_ms: (.p999_us - $alone[$op] | ms)}))
| {rows: ., worst: (map(select(is_alone | not)) | {
	stall_ms: (map(.ops.ping.above_ms, .ops.write.above_ms) | max),
	turn_ms: (map(.turn_ms) | max), fenced: (map(.fenced) | add)})}' \
	"$WORK/rows" >"$WORK/result"
if [ -n "$JSON" ]; then
	cat "$WORK/result"
	exit 0
fi
printf '%-12s %-6s %6s %6s %9s %9s %9s %9s %9s  %8s %6s %8s %8s\n' attack op n failed \
	"p50 ms" "p99 ms" "p99.9 ms" "worst ms" "above ms" "turn ms" fenced "done" refused
jq -r '.rows[] | . as $row | .ops | to_entries[] | [$row.attack, .key, .value.n, .value.failed,
	.value.p50_ms, .value.p99_ms, .value.p999_ms, .value.worst_ms, .value.above_ms]
	+ (if .key == "ping" then [$row.turn_ms // "-", $row.fenced, $row.done, $row.refused]
		else [] end)
	| map(tostring) | join(" ")' "$WORK/result" |
	LC_ALL=C awk '{
		printf "%-12s %-6s %6d %6d", $1, $2, $3, $4
		printf " %9.2f %9.2f %9.2f %9.2f %9.2f", $5, $6, $7, $8, $9
		if (NF > 9)
			printf "  %8s %6d %8d %8d", $10, $11, $12, $13
		printf "\n"
	}'
jq -r '.worst | "worst: stall_ms \(.stall_ms) turn_ms \(.turn_ms // "-") fenced \(.fenced)"' \
	"$WORK/result"
