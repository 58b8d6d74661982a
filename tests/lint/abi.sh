#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The sizes and offsets of the structures of rmem.h and cache.h, and the values of their constants,
# are those of abi.txt: a program that was compiled before keeps working.  What is new is added with
# --write; a released line never changes.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"
read -ra cc <<<"${CC:-cc}"

description=tests/lint/abi.txt
read -ra cc <<<"${CC:-cc}" # CC may have a launcher before the compiler
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# C statements that print each structure, each member, enumerator and macro of the header.  Members
# of an anonymous union count as the structure's, those of a named member do not.
statements()
{
	awk '
	/^struct rmem_[a-z_]+ \{/ { name = $2; print "STRUCT(" name ")"; inner = 0; next }
	/^enum rmem_[a-z_]+ \{/ { constants = 1; next }
	/^\}/ { name = ""; constants = 0; next }
	name != "" && /^\t__extension__ union \{/ { next }
	name != "" && /^\tstruct \{/ { inner = 1; next }
	name != "" && /^\t\} [a-z]/ {
		inner = 0
		gsub(/[\t};]|\[.*/, "")
		print "MEMBER(" name ", " $1 ")"
		next
	}
	name != "" && !inner && /^\t+[a-z].*;/ {
		sub(/;.*/, ""); gsub(/\[.*/, ""); gsub(/\*/, " ")
		print "MEMBER(" name ", " $NF ")"
	}
	constants && /^\tRMEM_[A-Z_0-9]+/ {
		sub(/^\t/, "")
		sub(/[ ,=].*/, "")
		print "VALUE(" $0 ")"
	}
	/^#define RMEM_[A-Z_0-9]+ [^_]/ { print "VALUE(" $2 ")" }
	' include/rmem/rmem.h include/rmem/cache.h
}

{
	cat <<'C'
#include <stdio.h>
#include <rmem/cache.h>
#define STRUCT(s) printf("struct %s: %zu bytes\n", #s, sizeof(struct s));
#define MEMBER(s, m)                                          \
	printf("  %s: %zu bytes at %zu\n", #m,                \
	       sizeof(((struct s *)0)->m), offsetof(struct s, m));
#define VALUE(v) printf("%s %lld\n", #v, (long long)(v));
int main(void)
{
C
	statements
	echo 'return 0; }'
} >"$tmp/abi.c"
"${cc[@]}" -x c -Iinclude -o "$tmp/abi" "$tmp/abi.c"
"$tmp/abi" >"$tmp/abi.txt"

if [ "${1:-}" = --write ]; then
	cp "$tmp/abi.txt" "$description"
	exit 0
fi
structures=$(grep -c '^struct' "$tmp/abi.txt")
[ "$structures" -ge 14 ] || {
	echo "abi: only $structures structures found"
	exit 1
}
if [ "$(getconf LONG_BIT)" != 64 ]; then
	echo "abi: $description is that of 64-bit hosts"
	exit 77
fi
diff -u --label "$description" --label "the headers" "$description" "$tmp/abi.txt" || {
	echo "abi: programs compiled before this change would break, or something is new:" \
		"tests/lint/abi.sh --write"
	exit 1
}
echo "abi: $structures structures, $(grep -c '^RMEM' "$tmp/abi.txt") constants"
