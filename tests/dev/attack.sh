#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Attack a daemon beside honest clients.
#
# usage: ./dev attack [--rounds N] [--rig] [GROUP...]
#
# Starts rmemd with several tenants and honest clients, and tries what it must refuse: all groups of
# attempts, or those named.  Prints a line for each attempt: what was tried, over which fabric, what
# refused it, and the counter that has risen.  The last line has the totals.
#
#   --rounds N    attempts that guess or flood take N times as long (default 1)
#   --rig         over soft-RoCE and iWARP in virtual machines, instead of TCP
#
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/lib/steps.sh"
# shellcheck source=tests/dev/lib/build.sh
. "$(dirname "$0")/lib/build.sh"
# shellcheck source=tests/dev/lib/machines.sh
. "$(dirname "$0")/lib/machines.sh"

groups_list()
{
	sed -n 's/^	{ "\([a-z]*\)", attack_.*/  \1/p' "$TOP/tests/attack/attack.c"
}

if help_wanted "$@"; then
	groups_list
	exit 0
fi
groups=()
rig=no
while [ $# -gt 0 ]; do
	case $1 in
	--rounds)
		[[ ${2-} =~ ^[1-9][0-9]{0,3}$ ]] || die attack "$1 takes a number from 1"
		export RMEM_ATTACK_ROUNDS=$2
		shift
		;;
	--rig)
		rig=rig
		;;
	*)
		groups_list | grep -qxF -- "  $1" ||
			die attack "no group '$1'; see ./dev attack --help"
		groups+=("$1")
		;;
	esac
	shift
done
tree_check
setup build test ${rig#no}
build build
step attack make -C "$BUILD" -j"$JOBS" tests/attack/attack tests/attack/honest tests/attack/pings
[ ${#groups[@]} -eq 0 ] || export RMEM_ATTACK_GROUPS="${groups[*]}"
export top_srcdir=$TOP top_builddir=$BUILD
if [ "$rig" = rig ]; then
	rig_ready
	RMEM_RIG_TESTS=attack/attack bash "$TOP/tests/rig/integration.sh"
else
	bash "$TOP/tests/attack/attack.sh"
fi
