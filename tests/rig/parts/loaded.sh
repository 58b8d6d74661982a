# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# A library that loads libibverbs and librdmacm (configure --with-rdma=dlopen), as ./dev reduced has
# built it: it moves bytes over RDMA, both ways to connect, and is linked with neither.
client=$BUILD/reduced/client
[ -x "$client/src/rmem/.libs/rmem" ] || fail "no client to test: run ./dev reduced first"

# loaded QUERY ARGUMENT...: rmem with that library
loaded()
{
	LD_LIBRARY_PATH=$client/.libs "$client/src/rmem/.libs/rmem" \
		-s "rmem://$RIG_ADDR?fabric=rdma&$1" "${@:2}"
}

! readelf -d "$client/.libs/librmem.so" | grep -E 'libibverbs|librdmacm' || fail "it is linked"
head -c 4000000 /dev/urandom >/tmp/in
for connect in cm direct; do
	config_write /tmp/rmemd.conf "server: listen=$RIG_ADDR insecure=yes" "tcp: enabled=no" \
		"rdma: connect=$connect" "pool main: size=64M page_size=base"
	server_start /tmp/rmemd.conf
	loaded "connect=$connect" put "$connect" /tmp/in || fail "$connect: put"
	loaded "connect=$connect" get "$connect" - | cmp - /tmp/in || fail "$connect: get"
	server_stop
done
