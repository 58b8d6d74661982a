#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Break rules on purpose (mutants.txt), one at a time in a copy of the tree, and see that the test
# named there fails, which passes without.  A line for each, with what the test says.  Argument: a
# pattern; only the mutants whose names match.
# cores: 4
set -euo pipefail

STEPS=3000000 # of the simulation, to find one: the daemon itself passes these
LIMIT=300     # seconds, of a test

original=${top_srcdir:?} configured=${top_builddir:?} copy=${top_builddir:?}/mutants
pattern=${1-*}
export top_srcdir=$copy/tree top_builddir=$copy/build # of the tests
export CK_TAP_LOG_FILE_NAME=- CK_VERBOSITY=silent

# die LOG TEXT
die()
{
	tail -n 20 "$copy/$1"
	echo "$2"
	exit 1
}

# The tree as the archive has it, configured like the build.
copy_make()
{
	local options

	options=$("$configured/config.status" --config)
	make -C "$configured" distdir distdir="$top_srcdir" &&
		cd "$top_builddir" &&
		eval "$top_srcdir/configure $options" "CFLAGS='-g -O1 -Wno-error'"
}

# The lines of the mutants asked for.
mutants()
{
	local name rest

	while IFS='|' read -r name rest; do
		# shellcheck disable=SC2053 # a pattern
		[[ $name == \#* || $name != $pattern ]] || echo "$name|$rest"
	done <"$original/tests/mutants/mutants.txt"
}

# build TEST...: programs, and what scripts run: all, and the programs of tests that they name
build()
{
	local test targets=()

	for test in "${@/#/tests/}"; do
		# shellcheck disable=SC2016 # a pattern
		if [[ $test == *.sh ]]; then
			mapfile -t -O ${#targets[@]} targets < <(
				echo all-am &&
					sed -n 's/.*$(built \(tests.*\))$/\1/p' "$top_srcdir/$test")
		else
			targets+=("$test")
		fi
	done
	make -j"$(nproc)" "${targets[@]}" >"$copy/make.log" 2>&1
}

# run TEST
run()
{
	case $1 in
	*.sh) set -- bash "$top_srcdir/tests/$1" ;;
	simulate/simulate) set -- "tests/$1" --first --steps "$STEPS" ;;
	*) set -- "tests/$1" ;;
	esac
	timeout "$LIMIT" "$@" >"$copy/test.log" 2>&1 </dev/null
}

# mutant_try SOURCES EXPRESSION TEST [CASE]: print what the test says; or fail, and print why it
# says nothing
mutant_try()
{
	local source

	for source in $1; do
		sed "$2" "$original/$source" >"$top_srcdir/$source"
		if cmp -s "$original/$source" "$top_srcdir/$source"; then
			echo "the expression changes nothing in $source"
			return 1
		fi
	done
	if ! build "$3"; then
		echo "does not compile: $(grep -m 1 'error: ' "$copy/make.log")"
	elif run "$3"; then
		echo "NOT FOUND"
	elif [ $# -eq 3 ]; then
		grep -am 1 -E ' is broken|^FAIL| failed: ' "$copy/test.log" ||
			tail -n 1 "$copy/test.log"
		return
	else
		grep -am 1 "^not ok .*:$4:" "$copy/test.log" && return
		echo "NOT FOUND: $(tail -n 1 "$copy/test.log")"
	fi
	return 1
}

rm -rf "$copy"
mkdir -p "$top_builddir"
copy_make >"$copy/make.log" 2>&1 || die make.log "cannot make a copy of the tree"
cd "$top_builddir"

mapfile -t programs < <(mutants | cut -d'|' -f4 | cut -d' ' -f1 | sort -u)
[ ${#programs[@]} -gt 0 ] || die /dev/null "no mutant '$pattern' in mutants.txt"
build "${programs[@]}" || die make.log "cannot build the tests"
for program in "${programs[@]}"; do
	run "$program" || die test.log "$program fails without a mutant"
done
echo "${#programs[@]} tests pass without a mutant"

found=0 bad=0
while IFS='|' read -r name sources expression test what; do
	# shellcheck disable=SC2086 # a program and perhaps a case
	if said=$(mutant_try "$sources" "$expression" $test); then
		found=$((found + 1))
	else
		bad=$((bad + 1))
	fi
	for source in $sources; do
		cp "$original/$source" "$top_srcdir/$source"
	done
	printf '%s: %s\n\t%s\n' "$name" "$what" \
		"$(LC_ALL=C tr -cd '[:print:]' <<<"$said" | cut -c1-150)"
done < <(mutants)
echo "$((found + bad)) mutants, $found found"
[ "$bad" -eq 0 ]
