#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# librmem against bare verbs calls in the rig, bandwidth and latency
# takes --json, --slices N, --processes N, --plot FILE.svg
#
# Both loops run in one process, in alternating slices, with one device, server, lease and buffer.
# A/A is the bare loop against itself; a cell with an A/A outside 0.98 to 1.02 is measured again,
# and does not count if it stays there.  RMEM_RIG_LEGS="612:rxe 61:rxe 612:siw" selects kernels and
# devices; each gets two tables:
# - By time, with several processes for each cell: the placement of a process's memory slows one of
#   the loops by some per cent for the life of the process, which A/A does not show.  Ratios are
#   medians over the processes; the lowest and the highest stand beside that of the bandwidth.
# - By instructions of kernel, library and program together, with --icount on one CPU, where one
#   process and fewer slices are enough.
# --plot draws the bandwidth of both, by time, with the lowest and the highest ratio as bars of
# librmem.  `<` marks a bandwidth below 0.97 and a latency above 1.05.
#
# At depth 1, by time, both loops pause for 30 us before each post; no figure includes the pause.
# In software devices a thread of the kernel does the work of the device and sleeps after each
# operation.  Without the pause (--rest-us 0) a program that posts within a microsecond finds that
# thread awake and saves 15 us, which says nothing about real devices.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench rdma}" "${top_builddir:?}"
SLICES=
PROCESSES=12
REST_US=30
CLOCK=
OP=
BYTES=
DEPTH=
SLICE_MS=
PLOT=
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
# shellcheck source=tests/bench/lib/plot.sh
. "$top_srcdir/tests/bench/lib/plot.sh"
usage="rdma.sh [--json] [--clock time|instructions] [--slices N] [--processes N] [--slice-ms MS]"
usage+=" [--rest-us US] [--op read|write] [--bytes N] [--depth N] [--plot FILE.svg]"
options "$usage" "$@"

[ "$PROCESSES" -gt 0 ] || {
	echo "rdma: --processes $PROCESSES: at least 1" >&2
	exit 2
}
if [ -n "$PLOT" ]; then
	plot_need rdma
	[ "${CLOCK:-time}" = time ] || {
		echo "rdma: --plot shows figures by time, and --clock leaves them out" >&2
		exit 2
	}
fi
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
config_write /tmp/rmemd.conf \
	"server: listen=$RIG_ADDR insecure=yes" \
	"session: heartbeat=5s fence=60s" \
	"pool main: size=128M"
server_start /tmp/rmemd.conf
device=$(basename /sys/class/infiniband/*)
# Threads of the kernel do the work of these devices.  They and the server get one CPU, the program
# gets the other.  The threads of iWARP and, up to 6.1, of soft-RoCE stay on the program's CPU.
pin=()
own=
if [ "$(nproc)" -gt 1 ]; then
	echo 2 >/sys/devices/virtual/workqueue/cpumask
	taskset -a -p 2 "$SERVER_PID" >/dev/null
	pin=(taskset 1)
	[[ $device = siw* || $(uname -r) = 6.1.* ]] || own=yes
fi
# On a shared CPU a thread that is woken must not preempt the program.  Up to 6.1 soft-RoCE wakes a
# thread with each post, although the post has done its work; for some milliseconds at a time these
# threads would preempt the program, in slices of either loop.
if [ -z "$own" ] && [[ $device = rxe* ]]; then
	mount -t debugfs debugfs /sys/kernel/debug &&
		echo NO_WAKEUP_PREEMPTION >/sys/kernel/debug/sched/features ||
		fail "the scheduler's features"
fi
# instead the program yields the CPU when it waits
yield=(--yield)
[ -z "$own" ] || yield=()

# cell OP BYTES DEPTH OPTION...: a row with the medians over all processes
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

# ---- other tools, for comparison ----

# pair_run NAME ARGUMENT...: run a program as server and as client; prints the client's output
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

# context TOOL BYTES MB/S US; "-": the tool does not measure it
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
	# ib_*_bw prints units of 2^20 bytes
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

# worst CONDITION: the worst ratios of the valid rows that satisfy a condition of jq, if any
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
		printf "%-5s %7d %5d | %9.2f %9.2f %6.3f%s %6.3f | ",
			$2, $3, $4, $5, $6, $7, mark($7 < 0.97), $8
		printf "%10.1f %10.1f %6.3f%s %6.3f%s%s\n",
			$9, $10, $11, mark($11 > 1.05), $12, spread,
			$13 == "true" ? "" : " invalid"
	}
	$1 == "context" { printf "%-12s %8d | %9s MB/s | %10s us\n", $2, $3, $4, $5 }'
}

# plot FILE: MB/s of both loops in all cells
plot()
{
	# shellcheck disable=SC2016 # a program of jq
	local timed='select(.op and .clock == "time")
		| "\(.kernel):\(.device)-\(.op)-\(.bytes)-\(.depth)" as $cell | .bandwidth'

	jq -r "$timed | \$cell" "$WORK/rows" >"$WORK/cells"
	jq -r "$timed"' | "\($cell) \(.bare) \(.bare) \(.bare)"' "$WORK/rows" >"$WORK/plot.bare"
	jq -r "$timed"' | "\($cell) \(.librmem) \(.bare * .low) \(.bare * .high)"' "$WORK/rows" \
		>"$WORK/plot.librmem"
	plot_svg "$1" "librmem and bare verbs calls, over emulated devices in virtual machines" \
		"MB/s" "$WORK/cells" bare librmem
}

# table KERNEL DEVICE CLOCK SLICES OPTION_OF_RIG...
table()
{
	local kernel=$1 device=$2 clock=$3 slices=${SLICES:-$4} rest_us=0 slice_ms=20
	local line tagged context='' status=0 processes=1
	shift 4
	if [ "$clock" = time ]; then
		rest_us=$REST_US
		processes=$PROCESSES
	else
		# 64 operations take 2 to 6 ms by this clock; a short slice is mostly start and end
		slice_ms=100
	fi
	slice_ms=${SLICE_MS:-$slice_ms}
	slices=$(((slices + processes - 1) / processes))
	[ "$slices" -gt 1 ] || slices=2

	if [ -z "$JSON" ]; then
		echo
		echo "== kernel $kernel, $device, by $clock: $processes x $slices slices of each," \
			"medians"
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
	done < <("$RIG" run --parallel --kernel "$kernel" --device "$device" "$@" \
		"bash $WORK/cmd.sh $WORK '$cells' $processes --slices $slices \
			--slice-ms $slice_ms --rest-us $rest_us" || echo "$?" >"$WORK/failed")
	if [ -s "$WORK/failed" ]; then
		status=$(cat "$WORK/failed")
		echo "FAILED on $kernel:$device: $status" >&2
		exit 1
	fi
	if [ -z "$JSON" ]; then
		table=".kernel == \"$kernel\" and .device == \"$device\" and .clock == \"$clock\""
		worst_print "$table" "worst of this table" || true
	fi
}

: >"$WORK/rows"
for leg in $(legs 612:rxe 612:siw); do
	# idle=poll: a sleeping CPU wakes late, and later when the host is busy
	[ "${CLOCK:-time}" != time ] ||
		table "${leg%:*}" "${leg#*:}" time 120 --append idle=poll --timeout 3600
	[ "${CLOCK:-instructions}" != instructions ] ||
		table "${leg%:*}" "${leg#*:}" instructions 16 --icount --timeout 3600
done

[ -z "$PLOT" ] || plot "$PLOT"
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
