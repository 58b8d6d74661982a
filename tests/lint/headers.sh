#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every header compiles alone and when included twice; the public ones also in programs of
# C99, C11, C++11 and C++20 that call their inline functions.
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

# uses HEADER: a program that calls the inline functions of a public header
uses()
{
	echo 'int main(void)'
	echo '{'
	sed -nE 's/^static inline .*[ *](rmem_[a-z0-9_]+)\(.*/	(void)\&\1;/p' "include/$1"
	echo '	return 0;'
	echo '}'
}

# compile HEADER COMPILER ARG...
compile()
{
	local header=$1
	shift
	printf '#include "%s"\n#include "%s"\n' "$header" "$header" >"$tmp/alone"
	[ "${header%/*}" != rmem ] || [ ! -f "include/$header" ] || uses "$header" >>"$tmp/alone"
	if ! "$@" -fsyntax-only "$tmp/alone"; then
		echo "$header does not compile alone: $*"
		bad=$((bad + 1))
	fi
}

# Python's header, if it is here: an installation without it has nothing that uses it
python=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null || true)
sources=(src -name '*.h')
if [ -f "$python/Python.h" ]; then
	cflags+=(-isystem "$python")
else
	sources+=(! -path 'src/python/*')
fi

count=0
while read -r header; do
	compile "${header#src/}" "${cc[@]}" -x c -std=gnu17 "${warnings[@]}" \
		-D_GNU_SOURCE -Isrc -Iinclude "${cflags[@]}"
	count=$((count + 1))
done < <(find "${sources[@]}" | sort)

public=(-Wall -Wextra -pedantic -Werror -Iinclude)
for header in rmem/rmem.h rmem/cache.h; do
	[ "$(uses "$header" | grep -c '&rmem_')" -ge 2 ] || {
		echo "headers: too few inline functions found in $header"
		bad=$((bad + 1))
	}
	for standard in c99 c11; do
		compile "$header" "${cc[@]}" -x c -std=$standard "${public[@]}"
	done
	command -v "${CXX:-c++}" >/dev/null || continue
	for standard in c++11 c++20; do
		compile "$header" "${CXX:-c++}" -x c++ -std=$standard "${public[@]}"
	done
done
command -v "${CXX:-c++}" >/dev/null || echo "no C++ compiler: not tried as C++"

echo "headers: $count and the public ones, $bad failures"
[ "$count" -gt 5 ] && [ "$bad" -eq 0 ]
