#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Pre-shared keys are not in what a core dump of the daemon or of a client would have: neither where
# they were read, nor what OpenSSL has copied.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq
dumped=$(built tests/integration/dumped)

# absent NAME PID HEX: these bytes are nowhere in the process
absent()
{
	local n status=0

	n=$("$dumped" "$2" "$3") || status=$?
	[ "$status" -ne 77 ] || skip "$n"
	[ "$status" -eq 0 ] || fail "dumped ended with $status"
	[ "$n" = 0 ] || fail "the key is $n times in the memory of $1"
}

"$RMEMCTL" keygen default "$dir"
"$RMEMCTL" keygen red "$dir"
config_extra="
[tenant default]
[tenant red]
[server]
auth = psk
psk = $dir/rmemd.psk
"
server_start
key=$(cut -d: -f2 "$dir/red.psk")
absent "the daemon" "$server_pid" "$key"
# what is searched for is there as text: in the file
[ "$("$dumped" "$server_pid" "$(printf 'rmemd' | od -An -tx1 | tr -d ' \n')")" -gt 0 ] ||
	fail "nothing is found"
ok "no session"
make_file "$dir/data" 1000
export RMEM_PSK=$dir/red.psk
client put data "$dir/data"
background holder watch data
status_await '.sessions.active == 1' 20 || fail "no session"
absent "the daemon" "$server_pid" "$key"
absent "the client" "$client_pid" "$key"
ok "a session"
log_mark
kill -HUP "$server_pid"
log_await '^reloaded: ' || fail "no reload"
absent "the daemon" "$server_pid" "$key"
kill "$client_pid"
status_await '.sessions.active == 0' 20 || fail "the session is active"
absent "the daemon" "$server_pid" "$key"
ok "after a session"
server_stop
