#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# the Python package beside redis-py, pymemcache and a loop in C; takes --json, --rounds N, --ms N,
# --mooncake
# packages: redis-tools libsasl2-2 python3-redis python3-hiredis python3-pymemcache valgrind
#
# Reads and writes of 64 B to 1 MiB over TCP on loopback: by calls, one at a time; by asyncio, 100
# at a time; and in batches of 64.  All programs are measured in turns, in windows of --ms (50), and
# the best of --rounds (20) counts: operations per second.  Where a program has several calls for a
# cell, the better one counts.  Each operation has its own memory.
#
# - rmem: read_into() and write(); in asyncio 100 futures of these, or one of read_many() or
#   write_many(); these in batches, of a list of memories or one memory with an array of offsets.
# - redis: redis-py with hiredis.  GET and SET; with many, a pipeline of these, or MGET or MSET.
#   Nothing is persistent.
# - memcached: pymemcache, with noreply=False: writes wait for their answers; get_many() and
#   set_many().  It has no asyncio.
# - mooncake, with --mooncake: Mooncake Store, from PyPI, in a virtual environment under the build
#   folder.  get_into() and upsert_from() and their batches, in memory that is registered; another
#   process has the values.
# - c: a loop in C over rmem_submit() and rmem_wait(), with the same batches.
# `peer` is rmem's rate to that of the best one of the others, and `c` to that of the loop in C.
#
# Then, with a librmem that does nothing, under callgrind: the instructions of a read_into() with
# the loop around it; of a read_many() of a list of 64, with an array of offsets; and of a read that
# is awaited in asyncio, one of 100 futures, from the call to its result.  `limit` is what they may
# be.
#
# The last line has the lowest `peer`, and the lowest `c` at 4 KiB.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench python}" "${top_builddir:?}"
ROUNDS=20
MS=50
MOONCAKE=
# shellcheck source=tests/bench/lib/options.sh
. "$top_srcdir/tests/bench/lib/options.sh"
# shellcheck source=tests/bench/lib/memcached.sh
. "$top_srcdir/tests/bench/lib/memcached.sh"
options "python.sh [--json] [--rounds N] [--ms N] [--mooncake]" "$@"

PYTHON=$(sed -n 's/^PYTHON = //p' "$top_builddir/Makefile")
"$PYTHON" -c 'import hiredis, pymemcache, redis.asyncio' || {
	echo "python: $PYTHON does not have these: configure with PYTHON=/usr/bin/python3" >&2
	exit 1
}
make -s -C "$top_builddir" tests/bench/python libpythonnull.la >&2
MEMCACHED=$(memcached_unpack)
RMEMCTL=$top_builddir/src/rmemctl/rmemctl
PORT=17980
# shellcheck source=tests/bench/lib/daemon.sh
. "$top_srcdir/tests/bench/lib/daemon.sh"
# shellcheck source=tests/bench/lib/programs.sh
. "$top_srcdir/tests/bench/lib/programs.sh"
WORK=$(mktemp -d /tmp/rmem-python-XXXXXX)
LEG=$WORK
trap programs_end EXIT

# the package as it is installed
mkdir -p "$WORK/package/rmem"
ln -s "$top_srcdir"/src/python/rmem/* "$top_builddir/src/python/rmem/.libs/_rmem.abi3.so" \
	"$WORK/package/rmem"
export LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PYTHONPATH=$WORK/package PYTHONDONTWRITEBYTECODE=1

# ---- rates ----

# server NAME PORT COMMAND...: start one, and wait until it listens
server()
{
	local i

	"${@:3}" >"$WORK/$1.err" 2>&1 </dev/null &
	PROGRAMS[$1]=$!
	for ((i = 0; i < 200; i++)); do
		[ -z "$(ss -Hltn "sport = :$2")" ] || return 0
		kill -0 "${PROGRAMS[$1]}" 2>/dev/null || break
		sleep 0.05
	done
	exit 1
}

# mooncake_start: its master, and a process that has the memory; PYTHON is one that has its client
mooncake_start()
{
	local environment=$top_builddir/bench-mooncake

	[ -x "$environment/bin/mooncake_master" ] || {
		"$PYTHON" -m venv --system-site-packages "$environment"
		"$environment/bin/pip" install -q --disable-pip-version-check \
			mooncake-transfer-engine-non-cuda >&2
	}
	PYTHON=$environment/bin/python
	MOONCAKE_PORT=$((PORT + 4))
	server mooncake "$MOONCAKE_PORT" "$environment/bin/mooncake_master" \
		-rpc_address 127.0.0.1 -rpc_port "$MOONCAKE_PORT" -metrics_port $((PORT + 5))
	program store "$PYTHON" "$top_srcdir/tests/bench/python-store.py" "$MOONCAKE_PORT" \
		$((600 << 20))
}

daemon_start "$WORK" 127.0.0.1 "$PORT" tcp "[pool main]
size = 300M
page_size = base" "$top_builddir/src/rmemd/rmemd"
# the server has two names, and the package of this one starts no service
server redis $((PORT + 2)) bash -c 'exec -a redis-server redis-check-rdb "$@"' _ \
	--bind 127.0.0.1 --port $((PORT + 2)) --save '' --appendonly no --dir "$WORK"
server memcached $((PORT + 3)) "$MEMCACHED" -u root -l 127.0.0.1 -p $((PORT + 3)) -U 0 -m 1024 \
	-I 4m
MOONCAKE_PORT=0
[ -z "$MOONCAKE" ] || mooncake_start
"$PYTHON" "$top_srcdir/tests/bench/python.py" "rmem://127.0.0.1:$PORT?fabric=tcp" \
	$((PORT + 2)) $((PORT + 3)) "$MOONCAKE_PORT" "$top_builddir/tests/bench/python" \
	"$ROUNDS" "$MS" \
	>"$WORK/rates" 2>"$WORK/python.err"

# ---- instructions ----

# counted WHAT N: the instructions of a process that does WHAT N times
counted()
{
	PYTHONHASHSEED=0 LD_PRELOAD=$top_builddir/.libs/libpythonnull.so \
		valgrind --tool=callgrind --callgrind-out-file=/dev/null \
		"$PYTHON" "$top_srcdir/tests/bench/python-null.py" "$@" 2>"$WORK/null.err"
	awk '/Collected :/ { print $4; found = 1 } END { exit !found }' "$WORK/null.err"
}

# instructions WHAT N LIMIT: a row, of the difference between 2 N and N
instructions()
{
	local once twice

	once=$(counted "$1" "$2")
	twice=$(counted "$1" $((2 * $2)))
	echo "{\"what\":\"$1\",\"instructions\":$(((twice - once) / $2)),\"limit\":$3}"
}

{
	instructions read 2000 900
	instructions batch 200 12000
	instructions await 2000 3300
} >"$WORK/instructions"

# ---- the result ----

jq -cs --slurpfile instructions "$WORK/instructions" '
def ratio(a; b): a / b * 100 | floor / 100;
map(.per_s as $s | . + {
	peer: ratio($s.rmem; [$s.redis, $s.memcached, $s.mooncake | values] | max),
	c: (if $s.c then ratio($s.rmem; $s.c) else null end)})
| {rows: ., instructions: $instructions, worst: {
	peer: (map(.peer) | min),
	c: (map(select(.bytes == 4096).c | values) | min)}}' "$WORK/rates" >"$WORK/result"
if [ -n "$JSON" ]; then
	cat "$WORK/result"
	exit 0
fi
row='%-8s %-6s %8s %10s %10s %10s %10s %10s %6s %6s\n'
# shellcheck disable=SC2059 # a format
printf "$row" "" "" bytes rmem redis memcached mooncake c peer c
jq -r '.rows[] | [.way, .op, .bytes, .per_s.rmem, .per_s.redis, .per_s.memcached // "-",
	.per_s.mooncake // "-", .per_s.c // "-", .peer, .c // "-"] |
	map(tostring) | join(" ")' "$WORK/result" |
	while read -ra cells; do
		# shellcheck disable=SC2059 # a format
		printf "$row" "${cells[@]}"
	done
printf '%-8s %12s %10s\n' "" instructions limit
jq -r '.instructions[] | [.what, .instructions, .limit] | map(tostring) | join(" ")' \
	"$WORK/result" | while read -r what instructions limit; do
	printf '%-8s %12s %10s\n' "$what" "$instructions" "$limit"
done
jq -r '"worst: peer \(.worst.peer) c \(.worst.c)"' "$WORK/result"
