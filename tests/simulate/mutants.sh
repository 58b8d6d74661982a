#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Break rules on purpose (mutants.txt), each in a copy of one source, and see that the simulation
# finds each.  A line for each: the steps that it took.  An argument: this mutant alone.
set -euo pipefail

STEPS=1500000 # the most to search for one: the daemon itself passes these

dir=${top_builddir:?}/tests/simulate/mutants
mkdir -p "$dir"
missed=0 found=0

# mutant_make SOURCE EXPRESSION NAME: compile the copy in place of the source
mutant_make()
{
	sed "$2" "${top_srcdir:?}/$1" >"$dir/$3.c"
	! cmp -s "$top_srcdir/$1" "$dir/$3.c" ||
		{ echo "$3: the expression changes nothing in $1" && return 1; }
	make -C "$top_builddir" -s tests/simulate/mutant MUTANT="$dir/$3" >"$dir/$3.log" 2>&1 ||
		{ tail -n 5 "$dir/$3.log" && return 1; }
	mv "$top_builddir/tests/simulate/mutant" "$dir/$3"
}

while IFS='|' read -r name source expression what; do
	if [[ $name == \#* ]] || [ "${1-$name}" != "$name" ]; then
		continue
	fi
	mutant_make "$source" "$expression" "$name"
	out=$("$dir/$name" --first --steps "$STEPS") || true
	if [[ $out == *" is broken at step "* || $out == *" is broken: "* ]]; then
		found=$((found + 1))
		steps=${out##*$'\n'}
		printf '%-20s %9s steps  %s: %s\n' "$name" "${steps%% *}" "$what" \
			"$(sed -n 's/^seed [0-9]* is broken[^:]*: //p' <<<"$out" | head -n 1 | cut -c1-90)"
	else
		missed=$((missed + 1))
		printf '%-20s not found: %s\n' "$name" "$what"
	fi
done <"$top_srcdir/tests/simulate/mutants.txt"
echo "$((found + missed)) mutants, $found found"
[ "$missed" -eq 0 ]
