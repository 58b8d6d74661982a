#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Each mutant of tests/mutants/mutants.txt still changes its sources, and names a test that there
# is: they are tried seldom, and the code goes on.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"

tried=0 bad=0

# complain NAME TEXT
complain()
{
	echo "mutants: $1: $2"
	bad=$((bad + 1))
}

while IFS='|' read -r name sources expression test _; do
	[[ $name != \#* ]] || continue
	tried=$((tried + 1))
	for source in $sources; do
		if [ ! -f "$source" ]; then
			complain "$name" "there is no $source"
		elif sed "$expression" "$source" | cmp -s - "$source"; then
			complain "$name" "the expression changes nothing in $source"
		fi
	done
	test=${test%% *}
	[ -f "tests/$test" ] || [ -f "tests/$test.c" ] || complain "$name" "there is no test $test"
done <tests/mutants/mutants.txt
echo "mutants: $tried tried, $bad bad"
[ "$bad" -eq 0 ] && [ "$tried" -gt 100 ]
