#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Phrases that plain technical English does not use, and that have hardly any false match: a thread
# or a program is "it", and a subject is a noun.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"

phrases='who do(es)? so|what of it|such as do|so (many|much) at (most|least)|let(s|ting)? go of'
phrases+='|he|him|his|himself|thereof'

# a distributed tree may lack some of them
mapfile -t roots < <(ls -d src include man tests etc systemd README.md NEWS 2>/dev/null)
mapfile -t files < <(find "${roots[@]}" -type f ! -path 'tests/lint/*' \
	\( -name '*.[ch]' -o -name '*.sh' -o -name '*.[1-8]' -o -name '*.in' \
	-o -name '*.md' -o -name NEWS \) | sort)
[ ${#files[@]} -gt 20 ] || { echo "language: found only ${#files[@]} files"; exit 1; }

if grep -nHwiE "$phrases" "${files[@]}"; then
	echo "language: say it in plain technical English"
	exit 1
fi
echo "language: ${#files[@]} files"
