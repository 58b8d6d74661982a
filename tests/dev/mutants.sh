#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Break rules on purpose, and see that a test finds each.
#
# usage: ./dev mutants [PATTERN]
#
# Breaks each rule of tests/mutants/mutants.txt, in a copy of the tree in build/mutants, and sees
# that the test which the list names fails, and passes without: all, or those whose names match the
# pattern, such as 'claim-*'.  Prints a line for each, and one with what the test says.  The last
# line has the totals.
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/lib/steps.sh"
# shellcheck source=tests/dev/lib/build.sh
. "$(dirname "$0")/lib/build.sh"

! help_wanted "$@" || exit 0
arguments_max 1 "$@"
tree_check
setup build test
build build
top_srcdir=$TOP top_builddir=$BUILD bash "$TOP/tests/mutants/mutants.sh" "$@"
