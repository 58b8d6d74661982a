#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# ping, bench, the progress line, and the sources of the server's URI.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq

server_start

# ---- ping ----

client ping -c 3 -i 10ms >"$dir/ping"
[ "$(grep -cE '^seq=[123] time=[0-9.]+ ms$' "$dir/ping")" -eq 3 ] || fail "$(cat "$dir/ping")"
grep -q '^3 sent, 3 answered$' "$dir/ping" || fail "$(cat "$dir/ping")"
grep -qE '^round trip min/avg/max = [0-9.]+/[0-9.]+/[0-9.]+ ms$' "$dir/ping" ||
	fail "$(cat "$dir/ping")"
ok "$(tail -n 1 "$dir/ping")"
background ping ping -i 1h
status_await '.sessions.active == 1' 20 || fail "ping has no session"
kill -INT "$client_pid"
process_await "$client_pid" 10 || fail "ping does not end when interrupted"
[ "$process_status" -eq 0 ] || fail "an interrupted ping ended with $process_status"
grep -q 'answered$' "$dir/ping.out" || fail "no summary: $(cat "$dir/ping.out")"
ok "ping interrupted"

# ---- bench ----

for op in read write; do
	client bench --op "$op" --size 4K --depth 32 --batch 8 --channels 2 --region 4M \
		--duration 300ms --json >"$dir/json"
	jq -e --arg op "$op" '
		.op == $op and .size_bytes == 4096 and .depth == 32 and .batch == 8 and
		.channels == 2 and .errors == 0 and .operations > 0 and
		.seconds >= 0.3 and .seconds < 20 and
		(.bytes_per_second / .operations_per_second | round) == 4096 and
		(.latency_ns | .min > 0 and .min <= .p50 and .p50 <= .p99 and
			.p99 <= .p99_9 and .p99_9 <= .max)' "$dir/json" >/dev/null ||
		fail "bench --op $op: $(cat "$dir/json")"
done
# more threads or channels that read what others write are a race of their own
for op in read mixed:30 cas faa; do
	run_bench=(bench --op "$op" --random --depth 8 --region 1M --duration 300ms --json)
	case $op in
	mixed:30) bytes=4096 threads=1 run_bench+=(--size 4K --channels 1) ;;
	read) bytes=4096 threads=3 run_bench+=(--size 4K --threads 3) ;;
	*) bytes=8 threads=3 run_bench+=(--threads 3) ;;
	esac
	if ! client "${run_bench[@]}" >"$dir/json" 2>"$dir/err"; then
		grep -q 'no atomics' "$dir/err" || fail "bench --op $op: $(cat "$dir/err")"
		continue
	fi
	jq -e --arg op "$op" --argjson bytes "$bytes" --argjson threads "$threads" '
		.op == ($op | split(":")[0]) and .threads == $threads and
		.random and .errors == 0 and
		.read_percent == (if $op == "mixed:30" then 30 else null end) and
		.size_bytes == $bytes and .operations > 8 * $threads and
		.rate == null and .intervals == []' "$dir/json" >/dev/null ||
		fail "bench --op $op: $(cat "$dir/json")"
done
ok "bench with threads, mixed, random and atomic"

# at a rate that the queue can and at one that it cannot hold
client bench --size 64 --rate 500 --threads 2 --duration 2s --interval 500ms --json >"$dir/json"
jq -e '.rate == 500 and .errors == 0 and .operations >= 500 and .operations <= 1100 and
	(.intervals | length >= 3 and all(.operations_per_second > 0 and .latency_ns.p50 > 0) and
		(map(.at_seconds) | . == sort))' "$dir/json" >/dev/null ||
		fail "bench --rate: $(cat "$dir/json")"
client bench --size 1M --region 1M --depth 1 --rate 1000000 --duration 500ms --json >"$dir/json"
jq -e '.operations_per_second < 500000 and .latency_ns.max > 0.4e9 and
	.latency_ns.p50 > 0.1e9' "$dir/json" >/dev/null ||
		fail "latency hides the wait: $(cat "$dir/json")"
client bench --size 64 --duration 500ms --interval 100ms >"$dir/table"
[ "$(grep -cE '^ +[0-9]\.[0-9]{3}( +[0-9.]+){5}$' "$dir/table")" -ge 3 ] ||
	fail "no lines of intervals: $(cat "$dir/table")"
ok "bench at a rate, and in intervals"

client bench --size 1M --depth 2 --region 2M --duration 200ms >"$dir/table"
for line in operations bandwidth rate latency; do
	grep -qE "^ +$line +" "$dir/table" || fail "the table has no $line: $(cat "$dir/table")"
done
sed 's/^/ok: /' "$dir/table"
background bench bench --duration 1h --region 4M
status_await '.memory.lent_bytes > 0' 20 || fail "bench does not start"
kill -INT "$client_pid"
process_await "$client_pid" 10 || fail "bench does not end when interrupted"
[ "$process_status" -eq 0 ] || fail "an interrupted bench ended with $process_status"
grep -q bandwidth "$dir/bench.out" || fail "no result: $(cat "$dir/bench.out")"
expect_error 1 '^rmem: bench: ' client bench --region 1T
ok "bench interrupted"
lent_zero 20

# ---- the server's URI ----

RMEM_SERVER=$uri "$RMEM" ping -c 1 >/dev/null || fail "RMEM_SERVER is not used"
RMEM_SERVER=rmem://$LISTEN:1 "$RMEM" -s "$LISTEN:$port" --fabric "$FABRIC" ping -c 1 >/dev/null ||
	fail "-s HOST:PORT is not used"
RMEM_SERVER=$uri "$RMEM" ping -s "rmem://$LISTEN:$port" -c 1 >/dev/null ||
	fail "-s after the command is not used"
ok "server"

# ---- the progress line: only on a terminal, and after a second ----

# takes longer than a second: this test needs time to pass
slow_input()
{
	local i
	for i in 1 2 3 4 5 6 7 8; do
		head -c 600000 /dev/zero
		sleep 0.2
	done
}
slow_input | client put slow 2>"$dir/stderr"
[ ! -s "$dir/stderr" ] || fail "output without a terminal: $(cat "$dir/stderr")"
client get slow 2>"$dir/stderr" | cat >/dev/null
[ ! -s "$dir/stderr" ] || fail "output without a terminal: $(cat "$dir/stderr")"
if command -v script >/dev/null; then
	mkfifo "$dir/fifo"
	slow_input >"$dir/fifo" &
	pids+=("$!")
	script -qec "'$RMEM' -s '$uri' put slow '$dir/fifo'" /dev/null </dev/null >"$dir/typescript"
	grep -qaE 'slow  .*iB  .*iB/s' "$dir/typescript" ||
		fail "no progress: $(cat -v "$dir/typescript")"
	# a short transfer prints nothing
	script -qec "'$RMEM' -s '$uri' get slow /dev/null" /dev/null </dev/null >"$dir/typescript"
	[ ! -s "$dir/typescript" ] || fail "a short transfer printed: $(cat -v "$dir/typescript")"
	ok "progress"
fi
# ---- a closed standard output is no socket's number ----

without_output()
{
	"$@" >&-
}
expect_error 1 'Bad file descriptor' without_output client get slow
without_output client get slow "$dir/out" || fail "get without standard output"
[ "$(stat -c %s "$dir/out")" -eq 4800000 ] || fail "another length came back"

client rm slow
lent_zero 20
server_stop
