#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Authentication: pre-shared keys, certificates, their reload, and who is refused.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq openssl

# with OPTIONS ARGUMENT...: a client with these options in its URI
with()
{
	local options=$1
	shift
	"${client_exec[@]}" timeout -k 5 $((client_limit * patience)) "$RMEM" -s "$uri&$options" \
		"$@"
}

# refused REASON N: N connections were refused for this reason
refused()
{
	json_is status ".counters.refused.$1 == $2" ||
		fail "not $2 connections were refused as $1: $(rmemctl --json status |
			jq -c .counters)"
}

reload()
{
	log_mark
	kill -HUP "$server_pid"
	log_await "${1:-^reloaded: }" || fail "no reload"
}

# certificate NAME SUBJECT NAMES CA [DAYS [USAGE]]: write NAME.pem with its key, signed by CA
certificate()
{
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$2" \
		-keyout "$dir/$1.key" -out "$dir/$1.csr" 2>/dev/null
	openssl x509 -req -in "$dir/$1.csr" -CA "$dir/$4.pem" -CAkey "$dir/$4.key" -CAcreateserial \
		-days "${5:-2}" -out "$dir/$1.pem" -extfile <(
			printf '%s\nextendedKeyUsage=%s\n' "${3:+subjectAltName=$3}" \
				"${6:-serverAuth,clientAuth}") 2>/dev/null
}

# files_refused PATTERN SED...: --check-config and a start refuse the edited configuration with
# PATTERN
files_refused()
{
	local pattern=$1
	shift
	sed -e '' "$@" "$dir/rmemd.conf" >"$dir/bad.conf"
	expect_error 78 "^rmemd: $pattern" "$RMEMD" --check-config --config "$dir/bad.conf"
	expect_error "$start_status" "start-failed: $pattern" "$RMEMD" --config "$dir/bad.conf"
}

# ---- pre-shared keys ----

"$RMEMCTL" keygen default "$dir" >"$dir/keygen.out"
hash=$(printf '%b' "$(sed 's/.*://; s/../\\x&/g' "$dir/default.psk")" | sha256sum | cut -c1-16)
grep -q ": rmem1 default $hash\$" "$dir/keygen.out" || fail "the key's identity is not printed"
"$RMEMCTL" keygen red "$dir" | grep -qF "chgrp rmem $dir/rmemd.psk; chmod 640 $dir/rmemd.psk" ||
	[ "$(id -u)" -ne 0 ] || fail "root is not told who must read the file"
mkdir "$dir/stranger"
"$RMEMCTL" keygen red "$dir/stranger"
expect_error 1 'File exists: .* another folder' "$RMEMCTL" keygen red "$dir"
expect_error 2 'not the name of a tenant' "$RMEMCTL" keygen 'a:b' "$dir"
# a file that was cut or edited by hand
printf 'other:%032d' 0 >"$dir/stranger/rmemd.psk"
"$RMEMCTL" keygen blue "$dir/stranger"
[ "$(grep -cE '^(other|red|blue):[0-9a-f]+$' "$dir/stranger/rmemd.psk")" -eq 2 ] ||
	fail "a key is not on a line of its own"
chmod 644 "$dir/stranger/rmemd.psk"
expect_error 1 'others must not read it' "$RMEMCTL" keygen green "$dir/stranger"
[ ! -e "$dir/stranger/green.psk" ] || fail "a key that the server does not have"
expect_error 2 "is the server's file" "$RMEMCTL" keygen rmemd "$dir"
cp "$dir/rmemd.psk" "$dir/all.psk"
config_extra="
[tenant default]
[tenant red]
[server]
auth = psk
psk = $dir/rmemd.psk
"
server_start
make_file "$dir/data" 300000
with "psk=$dir/red.psk" put data "$dir/data"
with "psk=$dir/red.psk" get data "$dir/back"
same "$dir/data" "$dir/back"
with "psk=$dir/red.psk" --verbose ls 2>&1 >/dev/null | grep -q 'auth psk' ||
	fail "rmem does not tell auth"
RMEM_PSK=$dir/red.psk client get data - | cmp - "$dir/data" || fail "RMEM_PSK has no effect"
ok "the key's tenant"
supplied()
{
	"$top_builddir/tests/integration/supplied" "rmem://127.0.0.1:$port?fabric=tcp&tenant=red" \
		"$1"
}
supplied "$(cut -d: -f2 "$dir/red.psk")" || fail "a key that the program supplies is refused"
# the program's key comes before what the environment names
RMEM_CA=$dir/none RMEM_PSK=$dir/none supplied "$(cut -d: -f2 "$dir/red.psk")" ||
	fail "the environment disturbs a key that the program supplies"
expect_error 1 'the program has no key of tenant red' supplied none
expect_error 1 'the key has 65 bytes' supplied long
ok "a key that the program supplies"
expect_error 1 'there is no lease named "data"' with "psk=$dir/default.psk" get data
expect_error 1 'it has no key of tenant red' with "psk=$dir/default.psk&tenant=red" ls
expect_error 1 'this server asks for TLS: give a psk' client ls
refused tls 1
expect_error 1 'the other side does not accept this key' with "psk=$dir/stranger/red.psk" ls
refused unknown_key 1
chmod 604 "$dir/red.psk"
expect_error 1 'others must not read it' with "psk=$dir/red.psk" ls
chmod 600 "$dir/red.psk"
if grep -qF -f <(cut -d: -f2 "$dir/rmemd.psk") "$server_log"; then
	fail "a key is in the log"
fi

# ---- a key that is removed ----

export RMEM_PSK=$dir/red.psk
background holder watch data
status_await '.sessions.active == 1' 20 || fail "no session"
json_is sessions '.sessions[0].auth == "psk"' || fail "rmemctl does not tell auth"
grep -v "$(cut -d: -f2 "$dir/red.psk")" "$dir/all.psk" >"$dir/rmemd.psk"
reload
refused removed 1
status_await '.sessions.active == 0' 20 || fail "the session of a removed key is active"
expect_error 1 'does not accept this key' client ls
# a new key of the tenant in the client's file, behind another tenant's: the session goes on
cat "$dir/all.psk" "$dir/stranger/red.psk" >"$dir/rmemd.psk"
cat "$dir/default.psk" "$dir/stranger/red.psk" >"$dir/red.psk"
rmemctl reload | grep -Fx '[server] psk: keys: 1 -> 3, added: 2, removed: 0' ||
	fail "the keys are not counted"
status_await '.sessions.active == 1' 30 || fail "the session did not resume with the new key"
kill "$client_pid"
echo nonsense >>"$dir/rmemd.psk"
reload '^(error )?reload-failed: .*rmemd.psk: line 4: it is not TENANT:HEXKEY; nothing was changed'
client ls >/dev/null
ok "a reload with a malformed file changes nothing"
start_status=78
files_refused '\[server\] psk: key file .*/rmemd.psk: line 4: it is not TENANT:HEXKEY'
start_status=1
files_refused '\[server\] psk: key file .*/none: No such file' -e "s,^psk = .*,psk = $dir/none,"
chmod 644 "$dir/all.psk"
files_refused '\[server\] psk: key file .*/all.psk: .*chmod 640' \
	-e "s,^psk = .*,psk = $dir/all.psk,"
# a key that does not come back: the program is told why its session could not be resumed
sed -i 's/^fence = .*/fence = 1s/; s/^grace = .*/grace = 1s/' "$dir/rmemd.conf"
sed -i '/nonsense/d' "$dir/rmemd.psk"
cp "$dir/stranger/red.psk" "$dir/red.psk"
reload
background holder watch data
status_await '.sessions.active == 1' 20 || fail "no session: $(cat "$dir/holder.err")"
cp "$dir/default.psk" "$dir/rmemd.psk"
reload
process_await "$client_pid" 60 || fail "a client whose key was removed does not end"
grep 'its grace time was over before it could be resumed: .*does not accept this key' \
	"$dir/holder.err" ||
	fail "$(cat "$dir/holder.err")"

sed -i '/^error reload-failed/d' "$server_log"
unset RMEM_PSK
server_stop

# ---- certificates ----

for ca in ca other; do
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$ca" \
		-days 2 \
		-keyout "$dir/$ca.key" -out "$dir/$ca.pem" 2>/dev/null
done
certificate server /CN=server "IP:$LISTEN,DNS:rmem.example" ca
certificate red /CN=red 'URI:spiffe://example.org/red/1' ca
certificate stranger /CN=red 'URI:spiffe://example.org/red/1' other
chmod 600 "$dir"/*.key
config_extra="
[tenant default]
[tenant red]
certificates = spiffe://example.org/red/*
[server]
auth = certificate
certificate = $dir/server.pem
key = $dir/server.key
ca = $dir/ca.pem
"
server_start
red="ca=$dir/ca.pem&cert=$dir/red.pem&key=$dir/red.key"
with "$red&tenant=red" put data "$dir/data"
with "$red&tenant=red&servername=rmem.example" get data "$dir/back"
same "$dir/data" "$dir/back"
ok "a certificate's tenant"
expect_error 1 "certificate fits no pattern of .tenant default. certificates" with "$red" ls
refused tenant 1
expect_error 1 'the name that is asked for is not in its subjectAltName' \
	with "$red&tenant=red&servername=else.example" ls
expect_error 1 'certificate of the other side: ' \
	with "ca=$dir/other.pem&cert=$dir/red.pem&key=$dir/red.key&tenant=red" ls
expect_error 1 'asks for a certificate' with "ca=$dir/ca.pem&tenant=red" ls
expect_error 1 'does not know who signed the certificate' \
	with "ca=$dir/ca.pem&cert=$dir/stranger.pem&key=$dir/stranger.key&tenant=red" ls
# two by the client, which did not accept the server
refused certificate 4
expect_error 1 'the certificate of the other side: ' with "psk=$dir/red.psk" ls

# ---- certificates that no client accepts ----

certificate nameless "/CN=$LISTEN" '' ca
certificate useless /CN=server "IP:$LISTEN" ca 2 clientAuth
certificate expired /CN=server "IP:$LISTEN" ca 0
chmod 600 "$dir"/*.key
start_status=78
its="its (subjectAltName|extended key usage) .*rmem-deployment"
for name in nameless useless; do
	files_refused "\\[server\\] certificate .*/$name.pem: $its" \
		-e "s,$dir/server,$dir/$name,"
done
files_refused '\[server\]: key .*/red.key: it is not that of the certificate' \
	-e "s,^key = .*,key = $dir/red.key,"
start_status=1
files_refused '\[server\]: ca .*/none: No such file' -e "s,^ca = .*,ca = $dir/none,"
sed "s,$dir/server,$dir/expired," "$dir/rmemd.conf" >"$dir/bad.conf"
expect_error 0 'certificate-not-valid: .server. certificate .*/expired.pem: it has expired at ' \
	"$RMEMD" --check-config --config "$dir/bad.conf"
cp "$dir/nameless.pem" "$dir/server.pem"
cp "$dir/nameless.key" "$dir/server.key"
reload '^(error )?reload-failed: .*/server.pem: its subjectAltName .*; nothing was changed'
with "$red&tenant=red" ls >/dev/null || fail "the certificate before the reload is not kept"
cp "$dir/expired.pem" "$dir/server.pem"
cp "$dir/expired.key" "$dir/server.key"
reload '^certificate-not-valid: '
expect_error 1 'certificate has expired' with "$red&tenant=red" ls
sed -i '/^error reload-failed/d' "$server_log"
server_stop

# ---- a server without TLS ----

config_extra='
[tenant default]
[tenant red]
'
server_start
expect_error 1 'TLS: the other side does not speak TLS' with "psk=$dir/red.psk" ls
refused protocol 1
