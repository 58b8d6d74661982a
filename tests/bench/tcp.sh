#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rmem over TCP against Redis, memcached, nbdkit, UCX, libfabric, iperf3, sockperf and bare sockets
# packages: redis-tools libsasl2-2 nbdkit fio ucx-utils libfabric-bin
# packages: iperf3 sockperf gnuplot-nox strace
#
# Reads and writes of 64 B to 1 MiB at depth 1, 16 and 128 by one and four clients, on loopback, or
# with --veth between two network namespaces.  A round measures all programs in each cell, in a
# random order, and rmem twice: `again` is the A/A.  Five rounds of a second take more than an hour.
#
# - rmem is `rmem bench` with one channel.  Each client is one process with one connection, sends as
#   many operations at once as the depth says, and waits for all of them, because redis-benchmark
#   pipelines so; for rmem that is --batch = --depth.  Each uses the same bytes of the server again
#   and again; at the client each operation outstanding has its own memory, but for iperf3 and ucx,
#   which have one block, in the cache: beside them 128 operations of 1 MiB are slow.
# - redis: GET and SET.  redis-range: GETRANGE and SETRANGE.  Nothing is persistent.
# - memcached: get and set, by a client of this benchmark.
# - nbdkit: its memory plugin, with fio's engine nbd.
# - ucx: ucx_perftest over tcp.  Reads are get; writes are put, which at a depth above 1 is complete
#   before the peer has the bytes, and at depth 1 a ping-pong of puts.
# - fabric: libfabric's fi_pingpong over tcp, at depth 1, with the bytes in both directions.
# Limits of sockets, which do nothing with the bytes:
# - iperf3, and stream, the same by a program of this benchmark with as much memory as rmem: one
# direction, beside 64 KiB and more
#   at depth 16 and 128.
# - sockperf: a ping-pong of up to 4 KiB, at depth 1, with the bytes in both directions.
# - bare: requests and responses as long as those of rmem, by send(2) and recv(2).
#
# Ratios are rmem's median to that of the program; the spread is the range of a program's rounds to
# its median.  CPU is in seconds per GiB; the client's has its start, and UCX polls.  A program that
# is not here or fails is named and left out.  `worst` has rmem's lowest rate to that of redis,
# redis-range, memcached, nbdkit, ucx or fabric; its lowest to iperf3's; and its highest median
# latency at depth 1 to that of bare.
#
#   --rounds N, --seconds N   how often, and how long each
#   --quick                   one round of a few cells
#   --cells PATTERN,...       cells are OP-BYTES-DEPTH-CLIENTS: 'read-64-*,*-65536-16-1'
#   --peers NAME,...          of the programs above; rmem is always measured
#   --congestion NAME         congestion control of all programs; default that of this host.  It
#                             decides much on loopback, too: bbr paces large reads to half of what
#                             cubic takes
#   --syscalls                then count rmem's system calls for an operation, with one client
#   --plot FILE.svg           operations per second
#
# All runs in a process and network namespaces of its own, without a way out, which end with it.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench tcp}" "${top_builddir:?}"
unset SECONDS # is an ordinary variable afterwards
SECONDS=1
ROUNDS=5
CELLS='*'
VETH='' QUICK='' SYSCALLS='' PLOT='' PEERS='' CONGESTION=''
# shellcheck source=tests/bench/lib/options.sh
. "$top_srcdir/tests/bench/lib/options.sh"
# shellcheck source=tests/bench/lib/plot.sh
. "$top_srcdir/tests/bench/lib/plot.sh"
# shellcheck source=tests/bench/lib/memcached.sh
. "$top_srcdir/tests/bench/lib/memcached.sh"
ARGUMENTS=("$@")
usage="tcp.sh [--json] [--quick] [--veth] [--rounds N] [--seconds N] [--cells PATTERN,...]"
usage+=" [--peers NAME,...] [--congestion NAME] [--syscalls] [--plot FILE.svg]"
options "$usage" "$@"

# ---- before the namespaces ----

# need COMMAND PACKAGE
need()
{
	command -v "$1" >/dev/null ||
		{ echo "tcp: $1 is missing: apt-get install $2" >&2; exit 1; }
}

if [ -z "${RMEM_BENCH_TCP-}" ]; then
	[[ "$SECONDS $ROUNDS" =~ ^[1-9][0-9]*\ [1-9][0-9]*$ ]] ||
		{ echo "tcp: --seconds and --rounds take numbers from 1" >&2; exit 2; }
	make -s -C "$top_builddir" tests/bench/tcp >&2
	[ -z "$SYSCALLS" ] || need strace strace
	[ -z "$PLOT" ] || plot_need tcp
	MEMCACHED=$(memcached_unpack)
	WORK=$(mktemp -d "${TMPDIR:-/tmp}/rmem-bench.XXXXXX")
	export RMEM_BENCH_TCP=yes MEMCACHED WORK
	user=() child=
	trap '[ -z "$child" ] || { kill -KILL "$child"; wait "$child"; } 2>/dev/null || true
		rm -rf "$WORK"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	[ "$(id -u)" -eq 0 ] || user=(--user --map-root-user)
	# its end, by a signal too, is the end of all processes in the namespaces
	unshare "${user[@]}" --net --pid --fork --kill-child --mount-proc bash "$0" \
		"${ARGUMENTS[@]}" &
	child=$!
	status=0
	wait "$child" || status=$?
	child=
	exit "$status"
fi

# ---- in the namespaces ----

# built PATH: the program behind libtool's script at PATH, whose start would be measured too
built()
{
	local real=$top_builddir/${1%/*}/.libs/${1##*/}
	if [ -x "$real" ]; then echo "$real"; else echo "$top_builddir/$1"; fi
}

BARE=$(built tests/bench/tcp)
RMEM=$(built src/rmem/rmem)
RMEMD=$(built src/rmemd/rmemd)
RMEMCTL=$(built src/rmemctl/rmemctl)
export LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} LC_ALL=C
SIZES=(64 4096 65536 1048576)
# shellcheck source=tests/bench/lib/daemon.sh
. "$top_srcdir/tests/bench/lib/daemon.sh"
# shellcheck source=tests/bench/lib/tcp.sh
. "$top_srcdir/tests/bench/lib/tcp.sh"

# ---- what to measure ----

# call PROGRAM FUNCTION ARGUMENTS...: of lib/tcp.sh
call()
{
	local program=${1//-/_}
	[ "$program" != again ] || program=rmem
	"${program}_$2" "${@:3}"
}

# has PROGRAM FUNCTION
has()
{
	local program=${1//-/_}
	[ "$program" != again ] || program=rmem
	declare -F "${program}_$2" >/dev/null
}

# programs_find: sets PROGRAMS, and MISSING, a list of names with what they need
programs_find()
{
	local name needed

	PROGRAMS=(rmem again) MISSING=()
	for name in ${PEERS//,/ }; do
		[[ " ${PEER_NAMES[*]} ${LIMIT_NAMES[*]} " == *" $name "* ]] ||
			{
				echo "tcp: no program '$name'; there are" \
					"${PEER_NAMES[*]} ${LIMIT_NAMES[*]}" >&2
				exit 2
			}
	done
	for name in "${PEER_NAMES[@]}" "${LIMIT_NAMES[@]}"; do
		[[ -z $PEERS || ",$PEERS," == *",$name,"* ]] || continue
		needed=$(! has "$name" find || call "$name" find)
		if [ -n "$needed" ]; then
			MISSING+=("$name: no ${needed//$'\n'/ and no }")
		else
			PROGRAMS+=("$name")
		fi
	done
}

# The servers of those that share them are started once.
servers_start()
{
	local name

	for name in "${PROGRAMS[@]}"; do
		case $name in
		redis-range) name=redis ;;
		stream) name=bare ;;
		again) continue ;;
		esac
		[ -n "${SERVERS[$name]-}" ] || ! has "$name" start || call "$name" start
	done
}

# cell_wanted: whether --cells or --quick selects OP SIZE DEPTH CLIENTS
cell_wanted()
{
	local pattern patterns

	IFS=, read -ra patterns <<<"$CELLS"
	for pattern in "${patterns[@]}"; do
		# shellcheck disable=SC2053 # a pattern
		[[ $OP-$SIZE-$DEPTH-$CLIENTS != $pattern ]] || return 0
	done
	return 1
}

# cells_run FUNCTION: call it for each wanted cell
cells_run()
{
	for SIZE in "${SIZES[@]}"; do
		for OP in read write; do
			for DEPTH in 1 16 128; do
				for CLIENTS in 1 4; do
					! cell_wanted || "$1"
				done
			done
		done
	done
}

# ---- the network ----

congestion=/proc/sys/net/ipv4/tcp_congestion_control
# Of this namespace alone; each of them has its own.
congestion_set()
{
	[ -z "$CONGESTION" ] || echo "$CONGESTION" 2>/dev/null >"$congestion" || {
		echo "tcp: this host does not allow $CONGESTION: sysctl" \
			"net.ipv4.tcp_allowed_congestion_control='$(
			cat /proc/sys/net/ipv4/tcp_available_congestion_control)'" >&2
		exit 1
	}
}

CLIENT_SECONDS=120 # for a client, then it has failed

# On loopback, or between this namespace and that of a process which sleeps.
network_make()
{
	local sleeper

	ip link set lo up
	congestion_set
	ADDRESS=127.0.0.1 DEVICE=lo ENTER=(timeout "$CLIENT_SECONDS")
	[ -n "$VETH" ] || return 0
	unshare --net sleep infinity &
	sleeper=$!
	until [ "$(readlink "/proc/$sleeper/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do
		sleep 0.05
	done
	ADDRESS=10.99.0.1 DEVICE=wire
	ENTER+=(nsenter --net="/proc/$sleeper/ns/net" --)
	ip link add wire type veth peer name wire netns "$sleeper"
	ip address add 10.99.0.1/24 dev wire
	ip link set wire up
	"${ENTER[@]}" ip link set lo up
	"${ENTER[@]}" bash -c "$(declare -f congestion_set)
		CONGESTION='$CONGESTION' congestion=$congestion
		congestion_set"
	"${ENTER[@]}" ip address add 10.99.0.2/24 dev wire
	"${ENTER[@]}" ip link set wire up
	# UCX looks for devices there; both ends have one name
	mount -t sysfs sysfs /sys || true
}

# ---- one run ----

RUN=$WORK/run
declare -A RATES=() # operations per second of a client, of programs that end by a number of them

# ticks PROGRAM: CPU time of its servers
ticks()
{
	local pid sum=0 fields

	for pid in ${SERVERS[$1]-}; do
		read -r fields <"/proc/$pid/stat"
		read -ra fields <<<"${fields##*) }"
		sum=$((sum + fields[11] + fields[12]))
	done
	echo $sum
}

# clients_run PROGRAM COUNT: all clients at once; fails if one fails
clients_run()
{
	local i err=0 pids=()

	for ((i = 0; i < CLIENTS; i++)); do
		call "$1" client "$i" "$2" >"$RUN/$i.out" 2>"$RUN/$i.err" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || err=1
	done
	return $err
}

# serve_run PROGRAM: the servers of one run, until each has served a client
serve_run()
{
	local i

	for ((i = 0; i < CLIENTS; i++)); do
		call "$1" serve "$i" >"$RUN/$i.server" 2>&1 &
		echo "$!" >"$RUN/$i.pid"
	done
	wait
}

# timed FILE COMMAND...: its CPU time goes to FILE
timed()
(
	TIMEFORMAT='%U %S'
	{ time "${@:2}" 2>&3; } 3>&2 2>"$1"
)

# program_run PROGRAM COUNT: run clients and servers once.  $RUN/rates has the results of the
# clients, server.cpu and client.cpu there their CPU time.  Fails if one of them does.
program_run()
{
	local before serving='' i err=0

	rm -rf "$RUN"
	mkdir "$RUN"
	COUNT=$2
	before=$(ticks "$1")
	if has "$1" serve; then
		timed "$RUN/server.cpu" serve_run "$1" &
		serving=$!
		for ((i = 0; i < CLIENTS; i++)); do
			listening $((PORTS[$1] + i))
		done
	fi
	timed "$RUN/client.cpu" clients_run "$1" "$2" || err=1
	if [ -z "$serving" ]; then
		echo "$((($(ticks "$1") - before) * 1000 / HZ))e-3 0" >"$RUN/server.cpu"
	else
		[ "$err" -eq 0 ] || kill -KILL "$(cat "$RUN"/*.pid)" 2>/dev/null || true
		wait "$serving" || true
	fi
	[ "$err" -eq 0 ] || return 1
	for ((i = 0; i < CLIENTS; i++)); do
		call "$1" result <"$RUN/$i.out" >>"$RUN/rates"
	done
	[ "$(grep -cE '^[0-9.e+]+ [0-9.e-]*[1-9][0-9.e-]* [0-9]+$' "$RUN/rates")" = "$CLIENTS" ]
}

# took: microseconds of the last run, the mean of its clients
took()
{
	awk '{ sum += $2 } END { printf "%d", sum / NR * 1e6 }' "$RUN/rates"
}

# count_find PROGRAM: set COUNT to the operations of a client that take --seconds; fails if the
# program does.  The first time by runs that grow until one takes a tenth of that.
count_find()
{
	local key=$1-$OP-$SIZE-$DEPTH-$CLIENTS n=$((DEPTH > 32 ? 2 * DEPTH : 64)) took

	COUNT=0
	[[ $COUNTED == *" $1 "* ]] || return 0
	while [ -z "${RATES[$key]-}" ]; do
		program_run "$1" "$n" || return 1
		took=$(took)
		if ((took >= SECONDS * 100000)); then
			RATES[$key]=$((n * 1000000 / took + 1))
		else
			n=$((n * 8))
		fi
	done
	COUNT=$(((RATES[$key] * SECONDS / DEPTH + 1) * DEPTH))
}

# program_time PROGRAM: run it for about --seconds; again if it turns out to be faster
program_time()
{
	local key=$1-$OP-$SIZE-$DEPTH-$CLIENTS took

	count_find "$1" && program_run "$1" "$COUNT" || return 1
	[ "$COUNT" -gt 0 ] || return 0
	took=$(took)
	RATES[$key]=$((COUNT * 1000000 / took + 1))
	((took >= SECONDS * 500000)) || { count_find "$1" && program_run "$1" "$COUNT"; }
}

# failure: why the last run has failed
failure()
{
	local line

	line=$(cat "$RUN"/*.server "$RUN"/*.err 2>/dev/null | grep . | tail -n 1 |
		sed 's/^\(\[[^]]*\] *\)*//; s/  */ /g')
	echo "${line:-it ended without a result}"
}

# program_measure PROGRAM: a row of this round.  A program that fails has none from then on.
program_measure()
{
	local cell=$OP-$SIZE-$DEPTH-$CLIENTS

	[ -z "${FAILED[$1-$cell]-}" ] || return 0
	! has "$1" can || call "$1" can || return 0
	if ! program_time "$1"; then
		FAILED[$1-$cell]="$1 failed at $cell: $(failure)"
		echo "tcp: ${FAILED[$1-$cell]}" >&2
		case $1 in
		rmem | again) exit 1 ;;
		*) return 0 ;;
		esac
	fi
	jq -cn --arg program "$1" --arg op "$OP" --argjson size "$SIZE" --argjson depth "$DEPTH" \
		--argjson clients "$CLIENTS" --rawfile rates "$RUN/rates" \
		--rawfile client "$RUN/client.cpu" --rawfile server "$RUN/server.cpu" '
		def table: split("\n") | map(select(. != "") | split(" ") | map(tonumber));
		($rates | table) as $rates
		| ($rates | map(.[0] * $size) | add / 1073741824) as $gib
		| {$op, $size, $depth, $clients, $program,
		   rate: ($rates | map(.[0] / .[1]) | add),
		   p50_ns: ($rates | map(.[2]) | sort[(length - 1) / 2 | floor]),
		   client: ($client | table[-1] | add / $gib),
		   server: ($server | table[-1] | add / $gib)}' >>"$WORK/runs"
}

cell_measure()
{
	local name

	echo "tcp: round $ROUND of $ROUNDS: $OP-$SIZE-$DEPTH-$CLIENTS" >&2
	while read -r name <&4; do
		program_measure "$name"
	done 4< <(shuf -e "${PROGRAMS[@]}")
}

# ---- system calls ----

STRACE=(strace -f -c "--summary-columns=name,calls")

# strace_calls FILE: the number of all calls in the output of strace -c
strace_calls()
{
	awk '$2 ~ /^[0-9]+$/ && $1 != "total" { sum += $2 } END { print sum + 0 }' "$1"
}

# strace_run MILLISECONDS: operations and the system calls of client and server
strace_run()
{
	local server

	"${STRACE[@]}" -o "$RUN/server.calls" -p "$DAEMON_PID" 2>"$RUN/server.err" &
	server=$!
	until grep -qs attached "$RUN/server.err"; do
		kill -0 "$server" 2>/dev/null || { cat "$RUN/server.err" >&2; exit 1; }
		sleep 0.05
	done
	(
		ENTER+=("${STRACE[@]}" -o "$RUN/client.calls")
		rmem_bench "$1" >"$RUN/out"
	)
	kill -INT "$server"
	wait "$server" || true
	echo "$(jq .operations "$RUN/out")" \
		"$(strace_calls "$RUN/client.calls") $(strace_calls "$RUN/server.calls")"
}

# The difference of a long and a short run, without the calls of the session's start and end.
cell_syscalls()
{
	local short long

	[ "$CLIENTS" = 1 ] || return 0
	rm -rf "$RUN"
	mkdir "$RUN"
	read -ra short < <(strace_run 200)
	read -ra long < <(strace_run 1200)
	jq -cn --arg op "$OP" --argjson size "$SIZE" --argjson depth "$DEPTH" \
		--argjson operations $((long[0] - short[0])) \
		--argjson client $((long[1] - short[1])) \
		--argjson server $((long[2] - short[2])) '
		def each: if $operations > 0 then . / $operations * 1000 | round / 1000
			else null end;
		{$op, $size, $depth, client: ($client | each), server: ($server | each)}' \
		>>"$WORK/syscalls"
}

# ---- the result ----

# Standard input: the rows of all rounds.
# shellcheck disable=SC2016 # a program of jq
SUMMARY='
def median: sort | if length % 2 == 1 then .[length / 2 | floor]
	else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def digits(n): . * n | round / n;
def cell: "\(.op)-\(.size)-\(.depth)-\(.clients)";
def lowest: map(.ratio) | min;
[inputs] | group_by([.size, .op, .depth, .clients]) | map(
	(map(select(.program == "rmem").rate) | median) as $rmem
	| group_by(.program) | map((map(.rate) | median) as $rate | {
		op: .[0].op, size: .[0].size, depth: .[0].depth, clients: .[0].clients,
		program: .[0].program, rounds: length,
		operations_per_second: ($rate | round),
		lowest: (map(.rate) | min | round), highest: (map(.rate) | max | round),
		spread: ((map(.rate) | max - min) / $rate | digits(1000)),
		bytes_per_second: ($rate * .[0].size | round),
		p50_us: (map(.p50_ns) | median |
			if . > 0 then . / 1000 | digits(100) else null end),
		client_s_per_gib: (map(.client) | median | digits(1000)),
		server_s_per_gib: (map(.server) | median | digits(1000)),
		ratio: (if .[0].program == "rmem" then null else $rmem / $rate | digits(1000) end)})
	| ([$order[] as $name | .[] | select(.program == $name)])) | add // []
| . as $rows
| {$network, $congestion, $seconds, rounds: $n_rounds, $missing, rows: $rows,
   aa: (map(select(.program == "again").ratio) | if . == [] then null else [min, max] end),
   syscalls: $syscalls,
   worst: {
	peer: (map(select(.program as $name | $peers | index($name))) | min_by(.ratio)
		| if . then {ratio, program, cell: cell} else null end),
	stream: (map(select(.program == "iperf3")) | min_by(.ratio)
		| if . then {ratio, cell: cell} else null end),
	roundtrip: ([map(select(.depth == 1 and .program == "rmem"))[] as $ours | $rows[]
			| select(.program == "bare" and cell == ($ours | cell))
			| {ratio: ($ours.p50_us / .p50_us | digits(1000)), cell: cell}]
		| max_by(.ratio))}}'

# table: of the JSON result
table()
{
	local row='%-28s %-12s %9s %6s %9s %9s %7s %9s %9s\n'

	jq -r '"rmem over TCP \(.network), \(.congestion), \(.rounds) rounds of \(.seconds) s, " +
		"CPU in s/GiB"' "$WORK/result"
	# shellcheck disable=SC2059 # a format
	printf "$row" "operation bytes depth clients" program op/s spread MB/s "p50 us" ratio \
		"client" "server"
	jq -r '.rows[] | ["\(.op)-\(.size)-\(.depth)-\(.clients)", .program, .operations_per_second,
		"\(.spread * 100 | round)%", (.bytes_per_second / 1e5 | round / 10),
		(.p50_us // "-"), (.ratio // "-"), .client_s_per_gib, .server_s_per_gib] |
		map(tostring) | join(" ")' "$WORK/result" |
		while read -ra fields; do
			# shellcheck disable=SC2059 # a format
			printf "$row" "${fields[@]}"
		done
	if [ -n "$SYSCALLS" ]; then
		printf '\n%-28s %9s %9s\n' "rmem's calls per operation" client server
		jq -r '.syscalls[] | "\(.op)-\(.size)-\(.depth)-1 " +
			"\(.client // "-") \(.server // "-")"' "$WORK/result" |
			while read -ra fields; do
				printf '%-28s %9s %9s\n' "${fields[@]}"
			done
	fi
	jq -r 'def figure: "\(.ratio // "-")";
		(.missing[] | "left out: \(.)"),
		"A/A of rmem: \(.aa | map(tostring) | join(" to "))",
		(.worst | "peer \(.peer.program // "-") at \(.peer.cell // "-"), " +
			"stream at \(.stream.cell // "-"), roundtrip at \(.roundtrip.cell // "-")"),
		(.worst | "worst: peer \(.peer | figure) stream \(.stream | figure) " +
			"roundtrip \(.roundtrip | figure)")' "$WORK/result"
}

# plot FILE: operations per second of all programs in all cells
plot()
{
	local name

	jq -r '[.rows[] | {op, size, depth, clients}] | unique_by([.size, .op, .depth, .clients])[]
		| "\(.op)-\(.size)-\(.depth)-\(.clients)"' "$WORK/result" >"$WORK/cells"
	for name in "${PROGRAMS[@]}"; do
		jq -r --arg name "$name" '.rows[] | select(.program == $name)
			| "\(.op)-\(.size)-\(.depth)-\(.clients) \(.operations_per_second) " +
				"\(.lowest) \(.highest)"' "$WORK/result" >"$WORK/plot.$name"
	done
	plot_svg "$1" "rmem over TCP $NETWORK, $(cat "$congestion")" "operations per second" \
		"$WORK/cells" \
		"${PROGRAMS[@]}"
}

# ---- all of it ----

HZ=$(getconf CLK_TCK)
declare -A FAILED=() # what a program that failed has said
if [ -n "$QUICK" ]; then
	ROUNDS=1
	[ "$CELLS" != '*' ] || CELLS='*-64-1-1,*-64-16-1,*-65536-16-1,read-4096-16-4'
fi
NETWORK="on loopback"
[ -z "$VETH" ] || NETWORK="between network namespaces"
programs_find
for name in "${MISSING[@]}"; do
	echo "tcp: left out: $name" >&2
done
network_make
servers_start
: >"$WORK/runs"
: >"$WORK/syscalls"
for ((ROUND = 1; ROUND <= ROUNDS; ROUND++)); do
	cells_run cell_measure
done
[ -s "$WORK/runs" ] || { echo "tcp: --cells '$CELLS' selects no cell" >&2; exit 2; }
[ -z "$SYSCALLS" ] || cells_run cell_syscalls
jq -cn --arg network "$NETWORK" --arg congestion "$(cat "$congestion")" \
	--argjson seconds "$SECONDS" --argjson n_rounds "$ROUNDS" \
	--slurpfile syscalls "$WORK/syscalls" \
	--argjson order "$(jq -cn '$ARGS.positional' --args "${PROGRAMS[@]}")" \
	--argjson peers "$(jq -cn '$ARGS.positional' --args "${PEER_NAMES[@]}")" \
	--argjson missing "$(jq -cn '$ARGS.positional' --args "${MISSING[@]}" "${FAILED[@]}")" \
	"$SUMMARY" "$WORK/runs" >"$WORK/result"
[ -z "$PLOT" ] || plot "$PLOT"
if [ -n "$JSON" ]; then
	cat "$WORK/result"
else
	table
fi
