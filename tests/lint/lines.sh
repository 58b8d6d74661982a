#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# No text has the marks of a merge that was not finished, or a line of more than 100 columns, but
# for those that cannot be wrapped.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"

# broken FILE...: the lines that break a rule, of those that are text
broken()
{
	local texts
	mapfile -t texts < <(grep -lIe '' -- "$@")
	[ ${#texts[@]} -eq 0 ] || awk '
	function columns(line,    n, i, parts, at) {
		n = split(line, parts, "\t")
		for (i = 1; i <= n; i++)
			at += length(parts[i]) + (i < n ? 8 - (at + length(parts[i])) % 8 : 0)
		return at
	}
	FNR == 1 { display = 0 }
	/^(<<<<<<<|=======|>>>>>>>|\|\|\|\|\|\|\|)( |$)/ {
		print FILENAME ":" FNR ": a mark of an unfinished merge"
	}
	# a text of JSON has no line breaks; a row of the mutants is one replacement; a program
	# draws SVG; inputs of the fuzzers stay as they were found
	FILENAME ~ /(\.json|\.svg|(^|\/)mutants\.txt)$|^tests\/fuzz\/regressions\// { next }
	# a row of a table, and what is shown as it is
	FILENAME ~ /\.md$/ && /^(\||    )/ { next }
	FILENAME ~ /\.[1-8]$/ {
		if (/^\.Bd/) display = 1
		if (/^\.Ed/) display = 0
		if (display || /^\.It /) next
	}
	columns($0) > 100 { print FILENAME ":" FNR ": more than 100 columns" }' "${texts[@]}"
}

# ---- the rules find what they are for ----

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
long=$(printf '%0101d' 0)
# name, what the long line begins with, whether it may be
while IFS=' ' read -r name begin may; do
	[ "$begin" != - ] || begin=
	printf '%b%s\n' "${begin//_/ }" "$long" >"$tmp/$name"
	[ "$(broken "$tmp/$name" | wc -l)" -eq "$may" ] ||
		{ echo "lines: not $may complaints about a long line of $name"; exit 1; }
done <<-KINDS
	a.c - 1
	a.h //_ 1
	a.sh #_ 1
	program - 1
	module.am - 1
	configure.ac - 1
	a.py - 1
	a.jq - 1
	a.yml - 1
	a.js - 1
	a.service.in - 1
	NEWS - 1
	a.md - 1
	a.md |_ 0
	a.1 - 1
	a.1 .It_ 0
	a.1 .Bd\n 0
	a.1 .Bd\n.Ed\n 1
	a.json - 0
	a.svg - 0
	mutants.txt - 0
	binary \000 0
KINDS
printf '\t%092d\n\t%093d\n' 0 0 >"$tmp/tab.sh"
[ "$(broken "$tmp/tab.sh")" = "$tmp/tab.sh:2: more than 100 columns" ] ||
	{ echo "lines: a tab does not go to the next of 8 columns"; exit 1; }
for mark in '<' '=' '>' '|'; do
	printf "%s\n" "${mark}${mark}${mark}${mark}${mark}${mark}${mark} name" >"$tmp/marked.json"
	[ "$(broken "$tmp/marked.json" | wc -l)" -eq 1 ] ||
		{ echo "lines: no complaint about seven $mark"; exit 1; }
done

# ---- the texts of the tree ----

if [ -e .git ]; then
	mapfile -t files < <(git ls-files)
else
	mapfile -t files < <(find dev .ci src include man tests debian etc systemd ./*.md NEWS \
		configure.ac Makefile.am \( -name .deps -o -name .libs \) -prune \
		-o -type f -print 2>/dev/null)
fi
existing=()
for file in "${files[@]}"; do
	[ ! -f "$file" ] || existing+=("$file")
done
broken "${existing[@]}" >"$tmp/broken"
cat "$tmp/broken"
echo "lines: ${#existing[@]} files, $(wc -l <"$tmp/broken") complaints"
[ ${#existing[@]} -gt 20 ] && [ ! -s "$tmp/broken" ]
