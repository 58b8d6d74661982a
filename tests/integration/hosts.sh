#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What hosts do to programs: what they refuse them, and signals at a bad time.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1

# ---- random numbers ----

without_random=$(built tests/integration/without-random)
if ! "$without_random" /bin/true; then
	skip "no filters of system calls"
fi
refused='getrandom\(\), which a filter of system calls such as seccomp must allow: '
refused+='Operation not permitted$'

server_start
make_file "$dir/data" 100000
# a client needs none, but for TLS, of which OpenSSL finds some elsewhere
client_exec=("$without_random")
client put data "$dir/data" || fail "no put without random numbers"
client get data "$dir/read" || fail "no get without random numbers"
client_exec=()
same "$dir/data" "$dir/read"
ok "clients without random numbers"

# ---- limits of file sizes ----

# limited KIB COMMAND...: no file may become larger
limited()
{
	(ulimit -f "$1" && "${@:2}")
}
too_large='the file would be larger than its file system, or the limit of this process'
too_large+=' \(ulimit -f, LimitFSIZE=\), allows$'

mkdir "$dir/files"
expect_error 1 "^rmem: get: writing the output: $too_large" \
	limited 64 client get data "$dir/files/read"
[ -z "$(ls -A "$dir/files")" ] || fail "files are left: $(ls -A "$dir/files")"
head -c 10000 "$dir/data" >"$dir/files/read"
expect_error 1 "^rmem: get: " limited 64 client get data "$dir/files/read"
[ "$(ls -A "$dir/files")" = read ] || fail "files are left: $(ls -A "$dir/files")"
head -c 10000 "$dir/data" | cmp - "$dir/files/read" || fail "the old file has changed"
expect_error 1 "^rmemctl: writing the output: $too_large" limited 1 rmemctl metrics
server_stop
expect_error 1 "^error start-failed: pool 'small': a file of [0-9]+ bytes: $too_large" \
	limited 20000 "$RMEMD" --config "$dir/rmemd.conf" --log-target plain

expect_error 1 "^error start-failed: $refused" \
	timeout 60 "$without_random" "$RMEMD" --config "$dir/rmemd.conf"
expect_error 1 "^rmemctl: $refused" timeout 60 "$without_random" "$RMEMCTL" keygen one "$dir"
[ ! -e "$dir/one.psk" ] || fail "a key that is not random"

# ---- signals while the daemon starts ----

pool_size=512M
server_config

# signal_start NAME PATTERN: start a daemon and send a signal while its memory is populated; wait
# for a line
signal_start()
{
	server_log=$dir/rmemd.log
	: >"$server_log"
	log_from=1
	"$RMEMD" --config "$dir/rmemd.conf" >"$server_log" 2>&1 &
	server_pid=$!
	pids+=("$server_pid")
	log_await ^started: 60 || fail "no start"
	kill "-$1" "$server_pid"
	log_await "$2" 60 || fail "no line matches $2 after SIG$1 while it starts"
}

for name in TERM INT; do
	signal_start "$name" ^stopped:
	process_await "$server_pid" 60 || fail "it does not end"
	[ "$process_status" -eq 0 ] || fail "status $process_status after SIG$name"
	ok "SIG$name: $(tail -n 1 "$server_log")"
done
signal_start HUP ^reloaded:
server_stop
ok "SIGHUP"
