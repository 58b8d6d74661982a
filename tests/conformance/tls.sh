#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The client of this folder under TLS, with pre-shared keys and with certificates.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/walk.sh"
python3 -c 'import ctypes.util, sys; sys.exit(not ctypes.util.find_library("ssl"))' ||
	skip "Python finds no libssl"

need openssl

# certificate NAME USAGE SUBJECT-ALT-NAME: NAME.pem, which is its own authority, and NAME.key
certificate()
{
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
		-days 2 \
		-addext "extendedKeyUsage=$2" -addext "subjectAltName=$3" \
		-keyout "$dir/$1.key" -out "$dir/$1.pem" 2>/dev/null
}

"$RMEMCTL" keygen default "$dir"
"$RMEMCTL" keygen red "$dir"
config_extra+="
[server]
auth = psk
psk = $dir/rmemd.psk
[tcp]
tls = yes
"
server_start
walk tls
server_stop

certificate server serverAuth "IP:$LISTEN"
certificate red clientAuth URI:spiffe://example.org/red/1
certificate stranger clientAuth URI:spiffe://example.org/red/2
cat "$dir/red.pem" "$dir/server.pem" >"$dir/ca.pem"
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
walk certificates
server_stop
