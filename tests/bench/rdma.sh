#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# librmem against bare verbs calls in the rig, bandwidth and latency; takes --json, --slices N, --processes N
#
# Both work in one process, in alternating slices, on the same device, server, lease and
# buffer.  A/A is the bare loop against itself; a cell where that leaves 0.98 to 1.02 is
# measured again, and does not count when it stays so.  The first table of a machine
# counts time, over several processes for each cell: where a process has its memory costs one
# of the loops some per cent, for as long as it lives, which A/A does not show.  The ratios are
# medians of those of the processes, with the lowest and the highest beside the bandwidth's.
# The second table counts instructions of kernel, library and program together: one CPU,
# icount, where one process and fewer slices tell as much.  `<` marks what misses 0.97 of the
# bandwidth or 1.05 of the latency.  RMEM_RIG_LEGS="612:rxe 61:rxe 612:siw" says on which
# kernels and devices.
#
# At depth 1, by time, both rest for 30 us before each post, which no figure counts: what a
# device does by itself a thread of the kernel does here, which goes to sleep when an
# operation is done.  Without the rest (--rest-us 0) a program that posts the next one within
# a microsecond meets it awake and saves 15 us, which tells of that thread and of no device.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench rdma}" "${top_builddir:?}"
JSON=
SLICES=
PROCESSES=12
REST_US=30
CLOCK=
OP=
BYTES=
DEPTH=
OPTIONS=()
while [ $# -gt 0 ]; do
	case $1 in
	--json) JSON=yes ;;
	--slices)
		SLICES=${2:?}
		shift
		;;
	--processes)
		PROCESSES=${2:?}
		shift
		;;
	--clock)
		CLOCK=${2:?}
		shift
		;;
	--op)
		OP=${2:?}
		shift
		;;
	--bytes)
		BYTES=${2:?}
		shift
		;;
	--depth)
		DEPTH=${2:?}
		shift
		;;
	--rest-us)
		REST_US=${2:?}
		shift
		;;
	--slice-ms)
		OPTIONS+=("$1" "${2:?}")
		shift
		;;
	*)
		echo "usage: rdma.sh [--json] [--clock time|instructions] [--slices N] [--processes N] [--slice-ms MS] [--rest-us US] [--op read|write] [--bytes N] [--depth N]" >&2
		exit 2
		;;
	esac
	shift
done

[ "$PROCESSES" -gt 0 ] || {
	echo "rdma: --processes $PROCESSES: at least 1" >&2
	exit 2
}
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
make -s -C "$top_builddir" tests/bench/rdma >&2
stage

# WORK CELLS PROCESSES OPTION...: a row for each cell
cat >"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
cells=$2
processes=$3
shift 3
set -o pipefail
exec 3>&1 >&2
guest_install
cat >/tmp/rmemd.conf <<-CONF
	[server]
	listen = $RIG_ADDR
	insecure = yes
	[session]
	heartbeat = 5s
	fence = 60s
	[admin]
	socket = /tmp/admin.sock
	[pool main]
	size = 128M
CONF
server_start /tmp/rmemd.conf /tmp/admin.sock
device=$(basename /sys/class/infiniband/*)
# What a device does by itself a thread of the kernel does here: it has a CPU of its own, with the
# server, and the program the other one.  iWARP's and, up to 6.1, soft-RoCE's are on the program's.
pin=()
own=
if [ "$(nproc)" -gt 1 ]; then
	echo 2 >/sys/devices/virtual/workqueue/cpumask
	taskset -a -p 2 "$SERVER_PID" >/dev/null
	pin=(taskset 1)
	[[ $device = siw* || $(uname -r) = 6.1.* ]] || own=yes
fi
# There one that is woken waits until the program does: else up to 6.1 one that soft-RoCE wakes
# with each post, for work that the post has done by then, is let in for nothing, by spells of
# some milliseconds that fall now on one loop, now on the other.
if [ -z "$own" ] && [[ $device = rxe* ]]; then
	mount -t debugfs debugfs /sys/kernel/debug &&
		echo NO_WAKEUP_PREEMPTION >/sys/kernel/debug/sched/features ||
		fail "the scheduler's features"
fi
# and the program lets them run when it waits
yield=(--yield)
[ -z "$own" ] || yield=()

# cell OP BYTES DEPTH OPTION...: the row of its processes' medians
cell()
{
	local op=$1 bytes=$2 depth=$3 i
	shift 3
	for ((i = 0; i < processes; i++)); do
		"${pin[@]}" "$BUILD/tests/bench/rdma" "${yield[@]}" --op "$op" --bytes "$bytes" \
			--depth "$depth" "$@" "rmem://$RIG_ADDR?fabric=rdma" || return
	done | jq -cs 'def median: sort
			| (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
		def figure($name): map(.[$name])
			| {bare: (map(.bare) | median), librmem: (map(.librmem) | median),
			   ratio: (map(.ratio) | median), aa: (map(.aa) | median),
			   low: (map(.ratio) | min), high: (map(.ratio) | max)};
		def agrees: .aa >= 0.98 and .aa <= 1.02;
		.[0] + {processes: length, slices: (map(.slices) | add),
			bandwidth: figure("bandwidth"), latency: figure("latency")}
		| . + {valid: ((.bandwidth | agrees) and (.latency | agrees))}'
}

for cell in $cells; do
	IFS=: read -r op bytes depth <<<"$cell"
	for attempt in 1 2 3; do
		row=$(cell "$op" "$bytes" "$depth" "$@") || {
			cat /tmp/rmemd.log
			fail "the benchmark"
		}
		[ "$(jq .valid <<<"$row")" = false ] || break
	done
	jq -c --argjson attempts "$attempt" '. + {attempts: $attempts}' <<<"$row" >&3
done
server_stop
[ "$(nproc)" -gt 1 ] || exit 0

# ---- what others measure, for comparison ----

# pair_run NAME ARGUMENT...: server and client of one program; the client's output
pair_run()
{
	local server i
	timeout 60 "$@" >/tmp/peer.log 2>&1 &
	server=$!
	for ((i = 0; i < 60; i++)); do
		timeout 60 "${pin[@]}" "$@" "$RIG_ADDR" 2>/tmp/client.log && break
		sleep 0.2
		kill -0 "$server" 2>/dev/null || break
	done
	kill "$server" 2>/dev/null
	wait "$server" 2>/dev/null
	true
}

# context TOOL BYTES MB/S US: "-" for what it does not tell
context()
{
	printf '{"tool":"%s","bytes":%d,"megabytes":"%s","microseconds":"%s"}\n' "$@" >&3
}

# perftest TOOL BYTES N
perftest()
{
	local tool=$1 bytes=$2 more=(-n "$3")
	[[ $tool != *_bw ]] || more+=(-t 64 -Q 32)
	pair_run "$tool" -F -R -d "$device" -s "$bytes" "${more[@]}" >/tmp/out
	# megabytes are 2^20 there
	awk -v bytes="$bytes" -v tool="$tool" '$1 == bytes {
		if (tool ~ /_bw$/) printf "%.1f -\n", $4 * 1.048576
		else printf "- %s\n", $5 }' /tmp/out
}

pingpong()
{
	pair_run fi_pingpong -p verbs -e msg -I "$2" -S "$1" >/tmp/out
	awk '$1 ~ /^[0-9]/ { print $6, $7 }' /tmp/out
}

while read -r bytes bw_n lat_n; do
	for op in read write; do
		command -v "ib_${op}_bw" >/dev/null || continue
		read -r mbs _ < <(perftest "ib_${op}_bw" "$bytes" "$bw_n") || mbs=-
		context "ib_${op}_bw" "$bytes" "$mbs" -
		read -r _ us < <(perftest "ib_${op}_lat" "$bytes" "$lat_n") || us=-
		context "ib_${op}_lat" "$bytes" - "$us"
	done
	command -v fi_pingpong >/dev/null || continue
	read -r mbs us < <(pingpong "$bytes" "$lat_n") || mbs=- us=-
	context fi_pingpong "$bytes" "$mbs" "$us"
done <<-END
	64 4000 1000
	4096 4000 1000
	65536 1000 200
	1048576 100 50
END
CMD

# ---- cells ----

cells=
for bytes in ${BYTES:-64 4096 65536 1048576}; do
	for op in ${OP:-read write}; do
		for depth in ${DEPTH:-1 64}; do
			cells+="$op:$bytes:$depth "
		done
	done
done

# ---- output ----

# What the rows told by $1, a condition of jq, have as their worst; no valid row: nothing.
worst()
{
	jq -rs "[.[] | select(.op and .valid and ($1))]
		| if length == 0 then empty else
			[(map(.bandwidth.ratio) | min), (map(.latency.ratio) | max)] | @tsv
		end" "$WORK/rows"
}

worst_print()
{
	local bandwidth latency
	read -r bandwidth latency < <(worst "$1") || {
		echo "$2: no valid figure"
		return 1
	}
	LC_ALL=C printf '%s: bandwidth %.2f latency %.2f\n' "$2" "$bandwidth" "$latency"
}

row_print()
{
	jq -r 'if .op then
		["row", .op, .bytes, .depth, .bandwidth.bare, .bandwidth.librmem,
		 .bandwidth.ratio, .bandwidth.aa, .latency.bare, .latency.librmem,
		 .latency.ratio, .latency.aa, .valid, .bandwidth.low, .bandwidth.high,
		 .processes]
	else
		["context", .tool, .bytes, .megabytes, .microseconds]
	end | map(tostring) | join(" ")' <<<"$1" | LC_ALL=C awk '
	function mark(bad) { return bad ? "<" : " " }
	$1 == "row" {
		spread = $16 > 1 ? sprintf("  %.3f to %.3f", $14, $15) : ""
		printf "%-5s %7d %5d | %9.2f %9.2f %6.3f%s %6.3f | %10.1f %10.1f %6.3f%s %6.3f%s%s\n",
			$2, $3, $4, $5, $6, $7, mark($7 < 0.97), $8,
			$9, $10, $11, mark($11 > 1.05), $12, spread,
			$13 == "true" ? "" : " invalid"
	}
	$1 == "context" { printf "%-12s %8d | %9s MB/s | %10s us\n", $2, $3, $4, $5 }'
}

# table KERNEL DEVICE CLOCK SLICES OPTION_OF_RIG...
table()
{
	local kernel=$1 device=$2 clock=$3 slices=${SLICES:-$4} rest_us=0 slice_ms=20
	local line tagged context='' status=0 processes=1
	shift 4
	[ "$clock" != time ] || rest_us=$REST_US
	# 64 operations take 2 to 6 ms by this clock: a slice of a few rounds tells of its ends
	[ "$clock" != instructions ] || slice_ms=100
	[ "$clock" != time ] || processes=$PROCESSES
	slices=$(((slices + processes - 1) / processes))
	[ "$slices" -gt 1 ] || slices=2

	if [ -z "$JSON" ]; then
		echo
		echo "== kernel $kernel, $device, by $clock: $processes x $slices slices of each, medians"
		printf '%-5s %7s %5s | %9s %9s %6s  %6s | %10s %10s %6s  %6s\n' '' '' '' \
			'MB/s bare' librmem ratio A/A 'us bare' librmem ratio A/A
	fi
	while read -r line; do
		tagged=$(jq -c --arg kernel "$kernel" --arg device "$device" \
			--arg clock "$clock" \
			'{kernel: $kernel, device: $device, clock: $clock} + .' <<<"$line") || {
			echo "$line" >&2
			continue
		}
		echo "$tagged" >>"$WORK/rows"
		[ -z "$JSON" ] || continue
		if [ -z "$context" ] && [[ $line == '{"tool"'* ]]; then
			context=yes
			echo "-- other tools in this machine, bandwidth at depth 64:"
		fi
		row_print "$tagged"
	done < <("$RIG" run --kernel "$kernel" --device "$device" "$@" \
		"bash $WORK/cmd.sh $WORK '$cells' $processes --slices $slices --slice-ms $slice_ms --rest-us $rest_us ${OPTIONS[*]}" || echo "$?" >"$WORK/failed")
	if [ -s "$WORK/failed" ]; then
		status=$(cat "$WORK/failed")
		echo "FAILED on $kernel:$device: $status" >&2
		exit 1
	fi
	if [ -z "$JSON" ]; then
		worst_print ".kernel == \"$kernel\" and .device == \"$device\" and .clock == \"$clock\"" \
			"worst of this table" || true
	fi
}

: >"$WORK/rows"
for leg in $(legs 612:rxe 612:siw); do
	# a CPU that sleeps wakes late, and later the busier this host is
	[ "${CLOCK:-time}" != time ] ||
		table "${leg%:*}" "${leg#*:}" time 120 --append idle=poll --timeout 3600
	[ "${CLOCK:-instructions}" != instructions ] ||
		table "${leg%:*}" "${leg#*:}" instructions 16 --icount --timeout 3600
done

invalid=$(jq -s '[.[] | select(.op and (.valid | not))] | length' "$WORK/rows")
if [ -n "$JSON" ]; then
	jq -cs '{rows: [.[] | select(.op)], context: [.[] | select(.tool)],
		invalid: [.[] | select(.op and (.valid | not))] | length,
		worst: ([.[] | select(.op and .valid)]
			| {bandwidth: (map(.bandwidth.ratio) | min),
			   latency: (map(.latency.ratio) | max)})}' "$WORK/rows"
	exit 0
fi
echo
[ "$invalid" -eq 0 ] || echo "$invalid cells are invalid: this host was too busy; they do not count"
worst_print true worst
