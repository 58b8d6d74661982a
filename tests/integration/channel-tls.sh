#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Data channels over TCP under TLS: bytes are right and not on the wire, and clients without the
# channel's key, or without TLS, are refused and counted.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq
[ "$FABRIC" != rdma ] || skip "over TCP alone"

tls_by_psk
server_start
devices=$(rmemctl --json devices | jq -c '.devices[] | select(.fabric == "tcp") | .tls')
[ "$devices" = true ] || fail "the status says tls: $devices"
# under_tls: the number of connections that the kernel's TLS has had
under_tls()
{
	awk '$1 == "TlsTxSw" { print $2 }' /proc/net/tls_stat 2>/dev/null || true
}

for bytes in 0 1 8 4095 4096 16384 300000 3145729; do
	make_file "$dir/data" "$bytes"
	client put data "$dir/data"
	client get data "$dir/back"
	same "$dir/data" "$dir/back"
done
ok "bytes come back"
timeout $((120 * patience)) "$(built tests/integration/bad-memory)" "$uri" tcp ||
	fail "bad-memory: status $?"
ok "memory that is not there fails the operation alone"
# the rig's kernel has TLS; others may have it
if [ -n "${RMEM_TLS_KERNEL:-}" ]; then
	background holder watch data
	poll_await 20 json_is devices \
		'.devices[] | select(.fabric == "tcp") | .tls_in_kernel > 0' ||
		fail "no channel is under TLS in the kernel: $(rmemctl --json devices)"
	kill "$client_pid"
fi
server_stop

# channels under TLS are replaced before their keys wear out: here after 512 records
under_tls_before=$(under_tls)
RMEMD=$(built tests/integration/renewals-rmemd) server_restart
timeout $((120 * patience)) "$(built tests/integration/renewals)" "$uri" "${RMEM_ROUNDS:-300}" ||
	fail "renewals: status $?"
ever=$(rmemctl --json devices | jq '.devices[] | select(.fabric == "tcp") | .channels_ever')
# of 78 MB each way, a channel carries 4 MiB of large answers at most; two are there from the
# beginning
[ "$ever" -ge 20 ] || fail "$ever channels: they are not replaced"
! grep -q 'which has sent too much' "$server_log" || fail "a client goes beyond the limit"
ok "channels are replaced without a trace"
if [ -n "${RMEM_TLS_KERNEL:-}" ]; then
	[ "$(under_tls)" -ge $((under_tls_before + ever)) ] ||
		fail "the kernel had $under_tls_before connections under TLS, now $(under_tls)"
	# a client that knows of no limit so low
	make_file "$dir/data" $((24 << 20))
	client put data "$dir/data"
	client get data "$dir/back"
	same "$dir/data" "$dir/back"
	grep -q 'which has sent too much' "$server_log" || fail "the server goes beyond the limit"
	ok "a channel of the kernel's TLS ends at the limit, and no transfer with it"
fi
server_stop

CK_TAP_LOG_FILE_NAME=/dev/null RMEM_PERCENT=${RMEM_PERCENT:-10} \
	"$(built tests/integration/fabric-conformance)" tls >"$dir/conformance" 2>&1 ||
	fail "$(tail -n 20 "$dir/conformance")"
ok "the promises of a fabric hold"
