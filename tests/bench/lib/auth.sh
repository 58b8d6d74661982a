# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the benchmarks that compare kinds of authentication.  RMEMCTL is the command to run.

# auth_files DIR ADDRESS TENANT...: keys and certificates of a server and of clients
auth_files()
{
	local dir=$1 address=$2 tenant

	shift 2
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=ca -days 2 \
		-keyout "$dir/ca.key" -out "$dir/ca.pem" 2>/dev/null
	auth_certificate "$dir" server "IP:$address"
	for tenant; do
		"$RMEMCTL" keygen "$tenant" "$dir" >/dev/null
		auth_certificate "$dir" "$tenant" "URI:spiffe://rack/$tenant"
	done
	chmod 600 "$dir"/*.key
}

auth_certificate()
{
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" \
		-keyout "$1/$2.key" -out "$1/$2.csr" 2>/dev/null
	openssl x509 -req -in "$1/$2.csr" -CA "$1/ca.pem" -CAkey "$1/ca.key" -CAcreateserial \
		-days 2 -out "$1/$2.pem" 2>/dev/null -extfile <(
			printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$3")
}

# auth_config none|psk|certificate DIR TENANT...: sections of the configuration
auth_config()
{
	local kind=$1 dir=$2 tenant

	shift 2
	printf '[server]\nauth = %s\n' "$kind"
	case $kind in
	psk) printf 'psk = %s/rmemd.psk\n' "$dir" ;;
	certificate)
		printf 'certificate = %s/server.pem\nkey = %s/server.key\nca = %s/ca.pem\n' \
			"$dir" "$dir" "$dir"
		;;
	esac
	for tenant; do
		printf '[tenant %s]\n' "$tenant"
		[ "$kind" != certificate ] || printf 'certificates = spiffe://rack/%s\n' "$tenant"
	done
}

# auth_options none|psk|certificate DIR TENANT: of a client's URI
auth_options()
{
	case $1 in
	none) echo "tenant=$3" ;;
	psk) echo "psk=$2/$3.psk" ;;
	certificate) echo "tenant=$3&ca=$2/ca.pem&cert=$2/$3.pem&key=$2/$3.key" ;;
	esac
}
