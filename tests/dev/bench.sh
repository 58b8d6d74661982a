#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Run a benchmark of tests/bench.
#
# usage: ./dev bench [NAME [OPTION...]]
#
# Without a name: list them.
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/lib/steps.sh"
# shellcheck source=tests/dev/lib/build.sh
. "$(dirname "$0")/lib/build.sh"

list()
{
	local file
	for file in "$TOP"/tests/bench/*.sh; do
		say "$(basename "$file" .sh)" "$(sed -n '3s/^# *//p' "$file")"
	done
}

! help_wanted "${@:1:1}" || exit 0
if [ $# -eq 0 ]; then
	list
	exit 0
fi
script=$TOP/tests/bench/$1.sh
[ -f "$script" ] || die bench "no benchmark '$1'; ./dev bench lists them"
# its own help, which needs nothing
! help_wanted "${@:2}" >/dev/null ||
	top_srcdir=$TOP top_builddir=$BUILD exec bash "$script" --help
tree_check
# those that only this benchmark needs
mapfile -t needed < <(sed -n 's/^# packages: //p' "$script" | tr ' ' '\n')
mapfile -t -O ${#needed[@]} needed < <(packages_of build test rig)
packages_need "${needed[@]}"
build build
top_srcdir=$TOP top_builddir=$BUILD bash "$script" "${@:2}"
