#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every header compiles alone and when included twice; the public one also as C11 and C++.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
bad=0

mapfile -t packages < <(sed -nE 's/^RMEM_NEED\(\[[A-Z_]+\], \[([a-z_0-9-]+).*/\1/p' configure.ac)
read -ra cflags <<<"$(pkg-config --cflags "${packages[@]}")"
warnings=(-Wall -Wextra -Wshadow -Wundef -Wstrict-prototypes -Werror)

# compile HEADER COMPILER ARG...
compile()
{
	local header=$1
	shift
	printf '#include "%s"\n#include "%s"\n' "$header" "$header" >"$tmp/alone"
	if ! "$@" -fsyntax-only "$tmp/alone"; then
		echo "$header does not compile alone: $*"
		bad=$((bad + 1))
	fi
}

count=0
while read -r header; do
	compile "${header#src/}" "${CC:-cc}" -x c -std=gnu17 "${warnings[@]}" \
		-D_GNU_SOURCE -Isrc -Iinclude "${cflags[@]}"
	count=$((count + 1))
done < <(find src -name '*.h' | sort)

public=(-Wall -Wextra -Wpedantic -Werror -Iinclude)
compile rmem/rmem.h "${CC:-cc}" -x c -std=c11 "${public[@]}"
if command -v "${CXX:-c++}" >/dev/null; then
	compile rmem/rmem.h "${CXX:-c++}" -x c++ -std=c++11 "${public[@]}"
else
	echo "no C++ compiler: rmem.h was not tried as C++"
fi

echo "headers: $count and the public one, $bad failures"
[ "$count" -gt 5 ] && [ "$bad" -eq 0 ]
