#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Search for a history that breaks a rule.
#
# usage: ./dev simulate [--seed N] [--steps N] [--seconds N] [--verbose]
#
# Runs the daemon and its clients in one thread, with simulated time, network, devices and faults,
# and checks after each step that no rule is broken.  Without an end: ten seconds.
#
#   --seed N      this seed alone; with an end, the first one
#   --steps N     end after this number of steps
#   --seconds N   end after this time
#   --verbose     print all that happens, and do not look for a shorter history
#
# A seed that breaks a rule is printed with a short history.  The last line has the totals.
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/lib/steps.sh"
# shellcheck source=tests/dev/lib/build.sh
. "$(dirname "$0")/lib/build.sh"

! help_wanted "$@" || exit 0
tree_check
setup build test
build build
step simulate make -C "$BUILD" -j"$JOBS" tests/simulate/simulate
"$BUILD/tests/simulate/simulate" "$@"
