#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# ./dev helps, names a command that it does not have, and installs what a command needs.
set -u
: "${top_srcdir:?}"
for script in "$top_srcdir"/tests/dev/*.sh; do
	command=$(basename "$script" .sh)
	timeout 20 "$top_srcdir/dev" "$command" --help </dev/null | awk '
		/shellcheck/ { wrong = 1 } { n++ } END { exit wrong || !n }' || {
		echo "./dev $command --help: nothing, or a line that is not for its readers"
		exit 1
	}
done
# behind an argument, too; that of a benchmark is its own
if ! "$top_srcdir/dev" setup build --help | grep -q '^usage: ./dev setup' ||
	! env -u top_srcdir -u top_builddir timeout 20 "$top_srcdir/dev" bench tcp --help \
		</dev/null | grep -q '^usage: .*--json'; then
	echo "./dev setup build --help or ./dev bench tcp --help: no help"
	exit 1
fi
said=$("$top_srcdir/dev" nothing 2>&1)
[ $?:"$said" = "2:dev        no command nothing; see ./dev --help" ] || {
	echo "./dev nothing: $said"
	exit 1
}

# In a source tree that itself is configured one line names the remedy, and nothing is installed or
# built.
tmp=$(mktemp -d "${TMPDIR:-/tmp}/rmem-lint.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/tests/bench" "$tmp/tests/rig"
touch "$tmp/tests/rig/packages"
cp "$top_srcdir/dev" "$tmp/dev" && cp -r "$top_srcdir/tests/dev" "$tmp/tests/dev" || exit 1
printf '#!/bin/bash\n# x\n# a benchmark\n# packages: rmem-peer rmem-other\n' \
	>"$tmp/tests/bench/named.sh"
touch "$tmp/config.status"

for command in demo check soak fuzz sanitize 'bench named'; do
	status=0
	# shellcheck disable=SC2086 # a command and its arguments
	timeout 20 "$tmp/dev" $command >"$tmp/out" 2>&1 </dev/null || status=$?
	if [ "$status" -ne 1 ] || [ "$(wc -l <"$tmp/out")" -ne 1 ] ||
		! grep -q 'make distclean' "$tmp/out"; then
		cat "$tmp/out"
		echo "./dev $command: status $status, or other lines than what to do"
		exit 1
	fi
done
[ "$(ls "$tmp")" = "$(printf '%s\n' config.status dev out tests)" ] || {
	ls "$tmp"
	echo "./dev left something behind"
	exit 1
}

# ./dev bench NAME installs the packages that NAME.sh names.  The commands that install are replaced
# by one that writes down how it was called.
rm "$tmp/config.status" "$tmp/out"
mkdir "$tmp/bin"
# shellcheck disable=SC2016 # for the script
printf '#!/bin/bash\ncase ${*: -1} in rmem-*) exit 1 ;; esac\necho installed\n' \
	>"$tmp/bin/dpkg-query"
# shellcheck disable=SC2016 # for the script
printf '#!/bin/bash\necho "apt-get $*"\n[ "$2" != install ]\n' >"$tmp/bin/apt-get"
# shellcheck disable=SC2016 # for the script
printf '#!/bin/bash\nexec "$@"\n' >"$tmp/bin/sudo"
chmod +x "$tmp"/bin/*
! PATH=$tmp/bin:$PATH timeout 20 "$tmp/dev" bench named >"$tmp/out" 2>&1 </dev/null ||
	{ echo "./dev bench goes on when packages cannot be installed"; exit 1; }
grep -qE '^apt-get -q install .* rmem-other rmem-peer$' "$tmp/build/setup.log" || {
	cat "$tmp/out"
	echo "./dev bench NAME does not install what NAME.sh names"
	exit 1
}
for script in "$top_srcdir"/tests/bench/*.sh; do
	while read -r package; do
		grep -qE "^# packages: (.* )?$package( |\$)" "$script" || {
			echo "${script##*/} asks to install $package, and has no line" \
				"'# packages: $package'"
			exit 1
		}
	done < <(sed -nE 's/.*: apt-get install ([a-z0-9-]+).*/\1/p' "$script")
done
