#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Pre-shared keys are not in what a core dump of the daemon or of a client would have: neither where
# they were read, nor what OpenSSL has copied; nor is the daemon's private key.  And it has no dump.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq openssl
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

# ---- the private key of a certificate ----

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=ca -days 2 \
	-addext extendedKeyUsage=serverAuth,clientAuth -addext "subjectAltName=IP:127.0.0.1" \
	-keyout "$dir/own.key" -out "$dir/own.pem" 2>/dev/null
key=$(openssl ec -in "$dir/own.key" -text -noout 2>/dev/null | sed -n '/^priv:/,/^pub:/p' |
	grep '^ ' | tr -d ' :\n')
key=${key: -64}
# as OpenSSL computes with it: the last byte first
reversed=$(fold -w 2 <<<"$key" | tac | tr -d '\n')
text=$(sed -n 2p "$dir/own.key" | tr -d '\n' | od -An -tx1 | tr -d ' \n')
config_extra="
[tenant default]
certificates = subject:*
[server]
auth = certificate
certificate = $dir/own.pem
key = $dir/own.key
ca = $dir/own.pem
"
own_absent()
{
	absent "the daemon" "$server_pid" "$key"
	absent "the daemon (reversed)" "$server_pid" "$reversed"
	absent "the daemon (text)" "$server_pid" "${text:0:96}"
}
server_start
own_absent
unset RMEM_PSK
uri+="&ca=$dir/own.pem&cert=$dir/own.pem&key=$dir/own.key"
client ls
own_absent
log_mark
kill -HUP "$server_pid"
log_await '^reloaded: ' || fail "no reload"
own_absent
ok "the key of a certificate"
server_stop

# ---- a dump for a program ----

# where the kernel does not dump a process, root owns its files in /proc
as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --)
if [ "$(id -u)" -eq 0 ] && chown 65534 "$dir" &&
	"${as_nobody[@]}" "$RMEMD" --version >/dev/null 2>&1; then
	netns_exec=("${as_nobody[@]}")
	pool_size=1M
	config_extra=
	server_config
	chmod 644 "$dir/rmemd.conf"
	# else they set the limit to 0
	export ASAN_OPTIONS=$ASAN_OPTIONS:disable_coredump=0 \
		TSAN_OPTIONS=$TSAN_OPTIONS:disable_coredump=0
	for limit in 0 unlimited; do
		ulimit -Sc "$limit" 2>/dev/null || continue
		server_restart
		owner=$(stat -c %u "/proc/$server_pid/stat")
		server_stop
		[ "$owner" = "$([ "$limit" = 0 ] && echo 0 || echo 65534)" ] ||
			fail "limit $limit: user $owner owns the process"
	done
	ok "no dump unless a limit asks for it"
fi
