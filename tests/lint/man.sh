#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# mandoc has nothing to say about the manual pages, down to style; every page they refer
# to that is this project's exists.  Pages of others need not be installed here.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"

command -v mandoc >/dev/null || { echo "no mandoc here"; exit 77; }

mapfile -t pages < <(sed -n '/^dist_man_MANS/,/[^\\]$/p' man/module.am | grep -oE 'man/[^ ]+')
[ ${#pages[@]} -gt 0 ] || { echo "man: no pages"; exit 1; }

# mandoc looks a reference up in MANPATH, where a page stands under each of its names.
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
