#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# mandoc has no message about the manual pages, not even of level style; every page of this project
# that they refer to exists.  Pages of other projects need not be installed.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"

command -v mandoc >/dev/null || { echo "no mandoc here"; exit 77; }

mapfile -t pages < <(sed -n '/^dist_man_MANS/,/[^\\]$/p' man/module.am | grep -oE 'man/[^ ]+')
[ ${#pages[@]} -gt 0 ] || { echo "man: no pages"; exit 1; }

# mandoc looks up references in MANPATH, which must have a page under each of its names.
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for page in "${pages[@]}"; do
	section=${page##*.}
	mkdir -p "$tmp/man$section"
	while read -r name; do
		ln -s "$PWD/$page" "$tmp/man$section/$name.$section"
	done < <(awk '/^\.Sh/ { on = $2 == "NAME" } on && $1 == ".Nm" { print $2 }' "$page")
done

MANPATH=$tmp mandoc -T lint -W style "${pages[@]}" 2>&1 |
	grep -v 'outdated mandoc.db lacks' >"$tmp/out" || true
grep -vE 'referenced manual not found: Xr ' "$tmp/out" >"$tmp/bad" || true
grep -E 'referenced manual not found: Xr (lib)?rmem' "$tmp/out" >>"$tmp/bad" || true
cat "$tmp/bad"
echo "man: ${#pages[@]} pages, $(wc -l <"$tmp/bad") messages"
[ ! -s "$tmp/bad" ]
