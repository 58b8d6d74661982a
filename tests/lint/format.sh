#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every C file is formatted by the tree's .clang-format, and no declaration is torn: the formatter
# breaks one before its name if the comment behind it is too long for the line.  Versions of the
# formatter differ; Debian 12 and 13 both have this one.  --write formats the files, for ./dev
# format.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"

command -v clang-format-19 >/dev/null || { echo "no clang-format-19 here"; exit 77; }

mapfile -t files < <(find src include tests -name '*.[ch]' | sort)
[ ${#files[@]} -gt 20 ] || { echo "format: found only ${#files[@]} files"; exit 1; }
if [ "${1-}" = --write ]; then
	clang-format-19 -i "${files[@]}"
	echo "${#files[@]} files"
	exit
fi

status=0
printf '%s\0' "${files[@]}" | xargs -0 -n 50 -P "$(nproc)" clang-format-19 --dry-run --Werror ||
	status=1
awk '
	/^\t+ *(\**[A-Za-z_][A-Za-z0-9_]*)?(\[[^]]*\])*;[ \t]*\/\*/ && FNR > 1 &&
			before ~ /^\t+[A-Za-z_][A-Za-z0-9_ *]*,?$/ &&
			match($0, /[^\t ]/) > match(before, /[^\t ]/) {
		print FILENAME ":" FNR ": a comment tears this declaration: write it above"
		torn = 1
	}
	{ before = $0 }
	END { exit torn }' "${files[@]}" || status=1
echo "format: ${#files[@]} files; ./dev format formats them"
exit "$status"
