#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# librmem-cache over real servers: keys and values of every length, what a hit costs, a full cache,
# flags, registered memory, a server that goes and comes back empty, and several servers.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1

CACHE=$(built tests/integration/cache)
# shellcheck disable=SC2034 # of lib.sh
pool_size=512M

# cache PART URI...
cache()
{
	timeout $((client_limit * patience)) "$CACHE" "$@" || fail "cache $1"
}

server_start
for part in keys costs registered full flags; do
	cache "$part" "$uri"
done

coproc LOST { exec "$CACHE" lost "$uri"; }
pids+=("$LOST_PID")
lost=$LOST_PID
exec {say}>&"${LOST[1]}" {hear}<&"${LOST[0]}"
read -r -u "$hear" line
[ "$line" = "stop the server" ] || fail "lost: $line"
server_stop
echo >&"$say"
read -r -u "$hear" line
[ "$line" = "start it again" ] || fail "lost: $line"
server_restart
echo >&"$say"
process_await "$lost" 60
[ "$process_status" = 0 ] || fail "a lost server"
ok "a lost server"

first=$uri
first_dir=$dir
dir=$dir/second
mkdir "$dir"
server_start
dir=$first_dir
cache servers "$first" "$uri"

# the tool
printf 'a value' >"$dir/value"
client cache --create 8M put tool key "$dir/value"
client cache put tool other <"$dir/value"
[ "$(client cache get tool key)" = "a value" ] || fail "rmem cache get"
[ "$(client cache ls tool | awk '{ print $1, $2, $3 }' | sort | tr '\n' ';')" = \
	"7 - key;7 - other;" ] || fail "rmem cache ls"
[ "$(client cache ls tool o | wc -l)" = 1 ] || fail "rmem cache ls with a prefix"
client cache stat tool | grep -q '^segments *[1-9]' || fail "rmem cache stat"
client cache rm tool key
if client cache get tool key 2>"$dir/err"; then
	fail "rmem cache get finds a key that was removed"
fi
grep -q "the key key is missing" "$dir/err" || fail "rmem cache get: $(cat "$dir/err")"
if client cache rm tool none other gone 2>"$dir/err"; then
	fail "rmem cache rm finds keys that never were"
fi
grep -q "key none is missing.*key gone is missing" "$dir/err" ||
	fail "rmem cache rm: $(cat "$dir/err")"
[ -z "$(client cache ls tool)" ] || fail "rmem cache rm leaves keys behind one that is missing"
away=rmem://127.0.0.1:1
client cache --servers "$uri,$away" stat tool >"$dir/out"
[ "$(sed -n 's/^lost *//p' "$dir/out")" = "$away" ] || fail "stat: $(cat "$dir/out")"
# with any of them away the other one was asked
for port in 1 2 3 4 5 6; do
	client cache --servers "$uri,rmem://127.0.0.1:$port" stat tool >"$dir/out"
	grep -q '^free *[1-9]' "$dir/out" || fail "stat: $(cat "$dir/out")"
done
# refused STATUS ARGUMENT...
refused()
{
	local status=0 expected=$1
	shift
	client cache "$@" 2>"$dir/err" || status=$?
	[ "$status" = "$expected" ] || fail "rmem cache $*: status $status, $(cat "$dir/err")"
}
refused 2 stat ""
refused 2 stat "$(printf %250s x)"
refused 2 get tool ""
refused 2 get tool "$(printf %256s x)"
refused 2 --servers "$uri," stat tool
refused 1 stat none
for key in {1..20}; do
	client cache --servers "$uri,$away" get tool "$key" 2>>"$dir/away" || true
done
grep -q "the key [0-9]* is missing" "$dir/away" || fail "no key is missing: $(cat "$dir/away")"
grep -q "the key [0-9]*: .*127.0.0.1" "$dir/away" || fail "no server is away: $(cat "$dir/away")"
ok "the tool"
