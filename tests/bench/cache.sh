#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# librmem-cache against Redis and memcached: blocks per second, and hit rates at equal memory
# packages: redis-server memcached libhiredis-dev
#
# All over TCP on loopback, each by one thread with batches of 64 keys:
#
# - rmem: rmem_cache_submit() and rmem_cache_wait(), an rmemd of its own.
# - redis: MGET and MSET by hiredis, maxmemory with allkeys-lru, nothing persistent.
# - memcached: one get of all keys, and 64 sets in one go, by a client of this benchmark.
#
# Rates are of 64 values of 4 KiB, 64 KiB and 1 MiB, the best of short windows that take turns; and
# of a trace of Zipf(0.9) with values of 4 KiB to 1 MiB, ten times as many bytes as the caches have,
# in which what is missing is put; there the bytes of all turns count.
#
# Hit rates are those of traces of 64,000 keys with values of 4,000 bytes, a tenth of which fits;
# the first third of a trace does not count.  A lease of rmem has as
# many bytes as Redis's maxmemory, to which what Redis uses without keys is added.  Its LRU has
# seconds, so its clock runs 500 times as fast.  Traces are Zipf, Zipf with 30 % of a scan, one in
# which each key of a half comes twice, and one of sessions that ask for eight keys each until they
# end.  "points" is how far rmem is ahead, "bar" how far it should be.
#
#   --rounds N, --ms N   windows of a cell, and how long each is
#   --requests N         of a trace of the hit rates; 0: none
#   --clients N          of rmem there, whose batches take turns; each looks at its own gets alone
#                        to choose what stays
#
# The last line has the lowest ratio of a rate to that of another, and that of the hit rates of rmem
# and Redis at Zipf 0.9.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench cache}" "${top_builddir:?}"
ROUNDS=20
MS=50
REQUESTS=640000
CLIENTS=1
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "cache.sh [--json] [--rounds N] [--ms N] [--requests N] [--clients N]" "$@"
for command in redis-server memcached; do
	command -v "$command" >/dev/null ||
		{ echo "cache: $command is missing: apt-get install $command" >&2; exit 1; }
done
make -s -C "$top_builddir" tests/bench/cache libcacheclock.la >&2
RMEMCTL=$top_builddir/src/rmemctl/rmemctl
export LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PORT=17960
# shellcheck source=tests/bench/lib/daemon.sh
. "$top_srcdir/tests/bench/lib/daemon.sh"
# shellcheck source=tests/bench/lib/programs.sh
. "$top_srcdir/tests/bench/lib/programs.sh"
WORK=$(mktemp -d /tmp/rmem-cache-XXXXXX)
LEG=$WORK
trap programs_end EXIT

# peer NAME PORT COMMAND...: start a server, and wait until it listens
peer()
{
	"${@:3}" >"$WORK/$1.out" 2>"$WORK/$1.err" &
	PROGRAMS[$1]=$!
	disown # bash would print how it ends
	until (: <"/dev/tcp/127.0.0.1/$2") 2>/dev/null; do
		kill -0 "${PROGRAMS[$1]}" 2>/dev/null || exit 1
		sleep 0.05
	done
}

# redis NAME PORT [COMMAND...]: start one, by the command
redis()
{
	peer "$1" "$2" "${@:3}" redis-server --bind 127.0.0.1 --port "$2" --save '' \
		--appendonly no --maxmemory-policy allkeys-lru --hz 500 --dir "$WORK"
}

# memcached_start NAME PORT MIB
memcached_start()
{
	peer "$1" "$2" memcached -u "$(id -un)" -l 127.0.0.1 -p "$2" -U 0 -m "$3" -I 4m
}

daemon_start "$WORK" 127.0.0.1 "$PORT" tcp "[pool main]
size = 2G
page_size = base" "$top_builddir/src/rmemd/rmemd"
redis redis $((PORT + 2))
memcached_start memcached $((PORT + 3)) 1024
memcached_start traced $((PORT + 4)) 256
"$top_builddir/tests/bench/cache" rates "$MS" "$ROUNDS" "$PORT" $((PORT + 2)) $((PORT + 3)) \
	$((PORT + 4)) >"$WORK/rows"
if [ "$REQUESTS" -gt 0 ]; then
	redis lru $((PORT + 5)) env LD_PRELOAD="$top_builddir/.libs/libcacheclock.so"
	"$top_builddir/tests/bench/cache" hits "$REQUESTS" "$CLIENTS" "$PORT" $((PORT + 5)) \
		>>"$WORK/rows"
fi

jq -Rcs '
def ratio(a; b): a / b * 1000 | round / 1000;
split("\n") | map(select(. != "") | split(" "))
| {rates: (map(select(.[0] == "rate") | {cell: .[1], store: .[2], per_s: (.[3] | tonumber)})
	| group_by(.cell) | map({cell: .[0].cell} + (map({(.store): .per_s}) | add))
	| map(. + {redis_ratio: ratio(.rmem; .redis),
		memcached_ratio: ratio(.rmem; .memcached)})),
   hits: (map(select(.[0] == "hits") | {trace: .[1], bar: (.[2] | tonumber),
	rmem: (.[3] | tonumber), redis: (.[4] | tonumber)}))}
| .worst = {peer: (.rates | map(.redis_ratio, .memcached_ratio) | min),
	hitrate: (.hits | map(select(.trace == "zipf-0.9") | ratio(.rmem; .redis)) | .[0])}
' "$WORK/rows" >"$WORK/result"
if [ -n "$JSON" ]; then
	cat "$WORK/result"
	exit 0
fi
printf '%-14s %10s %10s %10s %8s %10s\n' "" rmem/s redis/s memcached/s "to redis" "to memcached"
jq -r '.rates[] | [.cell, .rmem, .redis, .memcached, .redis_ratio, .memcached_ratio] | @tsv' \
	"$WORK/result" | while read -r cell rmem redis memcached to_redis to_memcached; do
	printf '%-14s %10s %10s %11s %8s %12s\n' "$cell" "$rmem" "$redis" "$memcached" \
		"$to_redis" "$to_memcached"
done
[ "$REQUESTS" -eq 0 ] || printf '%-14s %10s %10s %10s %8s\n' "hit rates" rmem redis points bar
jq -r 'def points: . * 10000 | round / 100;
	.hits[] | [.trace, .rmem, .redis, (.rmem - .redis | points), (.bar | points)] | @tsv' \
	"$WORK/result" | while read -r trace rmem redis points bar; do
	printf '%-14s %10s %10s %10s %8s\n' "$trace" "$rmem" "$redis" "$points" "$bar"
done
jq -r '"worst: peer \(.worst.peer) hitrate \(.worst.hitrate)"' "$WORK/result"
