#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What a host may refuse, as a container or a limit of the user does.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1

# ---- random numbers ----

without_random=$(built tests/integration/without-random)
if ! "$without_random" /bin/true; then
	skip "no filters of system calls"
fi
refused='getrandom\(\), which a filter of system calls such as seccomp must allow: Operation not permitted$'

server_start
make_file "$dir/data" 100000
# a client needs none, but for TLS, of which OpenSSL finds some elsewhere
client_exec=("$without_random")
client put data "$dir/data" || fail "no put without random numbers"
client get data "$dir/read" || fail "no get without random numbers"
client_exec=()
same "$dir/data" "$dir/read"
ok "clients without random numbers"
server_stop

expect_error 1 "^error start-failed: $refused" \
	timeout 60 "$without_random" "$RMEMD" --config "$dir/rmemd.conf"
expect_error 1 "^rmemctl: $refused" timeout 60 "$without_random" "$RMEMCTL" keygen one "$dir"
[ ! -e "$dir/one.psk" ] || fail "a key that is not random"
