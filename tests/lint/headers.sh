#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every header compiles alone and when included twice; the public one also in programs of
# C99, C11, C++11 and C++20 that call its inline functions.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"
read -ra cc <<<"${CC:-cc}"

read -ra cc <<<"${CC:-cc}" # CC may have a launcher before the compiler
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0

mapfile -t packages < <(sed -nE 's/^\t?RMEM_NEED\(\[[A-Z_]+\], \[([a-z_0-9-]+).*/\1/p' configure.ac)
read -ra cflags <<<"$(pkg-config --cflags "${packages[@]}")"
warnings=(-Wall -Wextra -Wshadow -Wundef -Wstrict-prototypes -Werror)

# compile HEADER COMPILER ARG...
compile()
{
	local header=$1
	shift
	printf '#include "%s"\n#include "%s"\n' "$header" "$header" >"$tmp/alone"
	[ "$header" != rmem/rmem.h ] || cat "$tmp/uses" >>"$tmp/alone"
	if ! "$@" -fsyntax-only "$tmp/alone"; then
		echo "$header does not compile alone: $*"
		bad=$((bad + 1))
	fi
}

count=0
while read -r header; do
	compile "${header#src/}" "${cc[@]}" -x c -std=gnu17 "${warnings[@]}" \
		-D_GNU_SOURCE -Isrc -Iinclude "${cflags[@]}"
	count=$((count + 1))
done < <(find src -name '*.h' | sort)

public=(-Wall -Wextra -pedantic -Werror -Iinclude)
{
	echo 'int main(void)'
	echo '{'
	sed -nE 's/^static inline .*[ *](rmem_[a-z0-9_]+)\(.*/	(void)\&\1;/p' include/rmem/rmem.h
	echo '	return 0;'
	echo '}'
} >"$tmp/uses"
[ "$(grep -c '&rmem_' "$tmp/uses")" -ge 5 ] || {
	echo "headers: too few inline functions found in rmem.h"
	bad=$((bad + 1))
}
for standard in c99 c11; do
	compile rmem/rmem.h "${cc[@]}" -x c -std=$standard "${public[@]}"
done
if command -v "${CXX:-c++}" >/dev/null; then
	for standard in c++11 c++20; do
		compile rmem/rmem.h "${CXX:-c++}" -x c++ -std=$standard "${public[@]}"
	done
else
	echo "no C++ compiler: rmem.h was not tried as C++"
fi

echo "headers: $count and the public one, $bad failures"
[ "$count" -gt 5 ] && [ "$bad" -eq 0 ]
