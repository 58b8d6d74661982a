#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# In-band operations: the server's memory has the bytes that a local model predicts.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

server_start
timeout $((120 * patience)) "$(built tests/integration/inband)" "$uri&channels=2" "$RMEM_SEED" ||
	fail "inband: status $?"
lent_zero 20
ok "library"

# ---- the tool ----

head -c 3000000 /dev/urandom >"$dir/in"
client put one "$dir/in"
client copy one two
client get two "$dir/out"
same "$dir/in" "$dir/out"
[ "$(client crc one two | awk '{ print $1 }' | sort -u | wc -l)" -eq 1 ] || fail "CRCs differ"
printf 123456789 | client put digits
[ "$(client crc digits)" = "e3069283  digits" ] || fail "$(client crc digits)"
[ "$(client crc --offset 9 digits)" = "00000000  digits" ] || fail "$(client crc --offset 9 digits)"
client fill --offset 2 --length 3 digits 2a
[ "$(client get digits)" = "12***6789" ] || fail "$(client get digits)"
client fill digits 4a4b
[ "$(client get digits)" = "JKJKJKJKJ" ] || fail "$(client get digits)"
expect_error 1 'beyond the lease' client fill --offset 8 --length 2 digits 00
expect_error 2 'hexadecimal' client fill digits 0
expect_error 2 'hexadecimal' client fill digits zz
expect_error 1 'none' client crc none
expect_error 1 'none' client copy none two
# a copy replaces the lease that has its name
client copy digits two
[ "$(client get two)" = "JKJKJKJKJ" ] || fail "$(client get two)"
client ping --data -c 2 -i 1ms | grep -q '^2 sent, 2 answered$' ||
	fail "no answer on the data channel"
client rm one two digits
lent_zero 20
ok "tool"
server_stop
