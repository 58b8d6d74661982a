#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The calls of the library fit the stack that librmem(3) says they need, with TLS too.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1

! sanitized || skip "sanitizers take more of the stack"
kib=$(sed -n 's/^\.\\" tests\/integration\/small-stack.sh: \([0-9]*\) KiB/\1/p' \
	"$top_srcdir/man/librmem.3")
"$RMEMCTL" keygen default "$dir" >/dev/null
for auth in none psk; do
	config_extra=
	[ "$auth" = none ] || config_extra="[server]
auth = psk
psk = $dir/rmemd.psk"
	server_start
	[ "$auth" = none ] || uri+="&psk=$dir/default.psk"
	timeout $((60 * patience)) "$(built tests/integration/small-stack)" "$uri" "$kib" ||
		fail "status $?, auth = $auth"
	lent_zero 20
	server_stop
done
