#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# No circle of files in src.  A file depends on another one when its object needs a symbol
# that the object of the other one defines, be it a function that is called, a function whose
# address is taken, or a table of functions.  A call through a pointer is no dependency: a
# callback depends on the file that registered it, and a table of functions makes the file
# that holds it depend on the functions in it.  So events go up through callbacks and tables.
# Code of an inline function in a header counts as code of the file that includes it.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"
top_builddir=${top_builddir:-$PWD/build}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

mapfile -t objects < <(find "$top_builddir/src" -name '*.o' | sort)
[ ${#objects[@]} -gt 20 ] || { echo "cycles: found only ${#objects[@]} objects"; exit 1; }
# all but those of builds that are not linked with RDMA's libraries, and Python's if left out
left_out=(! -name 'no_rdma*' ! -name loaded.c)
grep -q '^rmempyexec_LTLIBRARIES = ' "$top_builddir/Makefile" ||
	left_out+=(! -path 'src/python/*')
find src -name '*.c' "${left_out[@]}" >"$tmp/sources"

# Lines "USER DEFINER SYMBOL" of the source files, without "src/".
nm -A "${objects[@]}" | awk -v builddir="$top_builddir/" '
	# the source of an object: without .libs/ and the prefix of its library or program
	function source(object,    name) {
		if (object in source_of) return source_of[object]
		name = object
		sub(/\.o$/, ".c", name)
		sub(/\/\.libs\//, "/", name)
		if (!(name in exists)) sub(/\/[a-z0-9_]*-/, "/", name)
		return source_of[object] = name in exists ? name : ""
	}
	# the folder under src that a file is in
	function part(file) { split(file, folders, "/"); return folders[2] }
	FNR == NR { exists[$1] = 1; next }
	{
		object = substr($0, length(builddir) + 1)
		sub(/:.*/, "", object)
		file = source(object)
		if (file == "") next # of a file that is gone
		seen[file] = 1
		kind = $(NF - 1)
		if (kind == "U") needs[file, $NF] = 1
		else if (kind ~ /^[TDBRVWC]$/ && !((file, $NF) in defines)) {
			defines[file, $NF] = 1
			definers[$NF] = definers[$NF] " " file
		}
	}
	END {
		for (file in exists) if (!(file in seen)) {
			print "cycles: " file " was not built" >"/dev/stderr"
			failed = 1
		}
		for (need in needs) {
			split(need, pair, SUBSEP)
			n = split(definers[pair[2]], files, " ")
			# programs and libraries may each have a function of one name
			own = 0
			for (i = 1; i <= n; i++) own += part(files[i]) == part(pair[1])
			for (i = 1; i <= n; i++)
				if (files[i] != pair[1] &&
					(!own || part(files[i]) == part(pair[1])))
					print pair[1], files[i], pair[2]
		}
		exit failed
	}' "$tmp/sources" - | sort >"$tmp/needs"

# The shortest circle through each file that is in one; each circle is printed once.
awk '
	{
		if (!(($1, $2) in symbols)) { out[$1] = out[$1] " " $2; symbols[$1, $2] = $3 }
		else if (++more[$1, $2] <= 2) symbols[$1, $2] = symbols[$1, $2] ", " $3
		else if (more[$1, $2] == 3) symbols[$1, $2] = symbols[$1, $2] ", ..."
	}
	# the path of a circle from its first file in the order of names
	function circle(last,    n, i, first, at, path, text, file) {
		for (at = last; ; at = from[at]) {
			path[n++] = at
			if (at == root) break
		}
		for (i = 1; i < n; i++) if (path[i] < path[first]) first = i
		text = path[first + 0]
		for (i = 1; i <= n; i++) {
			file = path[(first + n - i) % n]
			text = text "\n\t-> " file \
				" (" symbols[path[(first + n - i + 1) % n], file] ")"
		}
		return text
	}
	function search(    queue, head, tail, n, i, files, at) {
		split("", from)
		queue[tail++] = root
		while (head < tail) {
			at = queue[head++]
			n = split(out[at], files, " ")
			for (i = 1; i <= n; i++) {
				if (files[i] == root) { print circle(at); return }
				if (files[i] in from) continue
				from[files[i]] = at
				queue[tail++] = files[i]
			}
		}
	}
	END { for (root in out) search() }
' "$tmp/needs" >"$tmp/found"
awk '/^[^\t]/ { if (text) print text; text = $0; next }
	{ text = text "|" $0 }
	END { if (text) print text }' "$tmp/found" | sort -u >"$tmp/circles"

sed 's/|/\n/g' "$tmp/circles"
circles=$(wc -l <"$tmp/circles")
echo "cycles: $(wc -l <"$tmp/sources") files, $(wc -l <"$tmp/needs") references, $circles circles"
[ "$(wc -l <"$tmp/needs")" -gt 20 ] && [ "$circles" -eq 0 ]
