#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A program that has sessions and forks: its children have sessions of their own, and cannot use
# those of the parent.  The first child calls every function that the library exports.
#   RMEM_ROUNDS  number of forks, default 10
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1

! with_tsan || skip "ThreadSanitizer cannot follow the threads of a forked child"
heartbeat=200ms
fence=3s
server_start
timeout $((120 * patience)) "$(built tests/integration/fork)" "$uri" "${RMEM_ROUNDS:-10}" \
	>"$dir/out" || fail "fork: status $?"
grep '^kept: ' "$dir/out"
sed -n 's/^called: //p' "$dir/out" | sort -u >"$dir/called"
sed -nE 's/^\t(rmem_[a-z0-9_]+);$/\1/p' "$top_srcdir/src/librmem/librmem.map" |
	sort >"$dir/exported"
[ -s "$dir/exported" ] || fail "librmem.map has no functions"
diff "$dir/exported" "$dir/called" || fail "fork.c does not call all functions of the library"
lent_zero 20
server_stop
