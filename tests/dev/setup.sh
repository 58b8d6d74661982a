#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Install the missing Debian packages.
#
# usage: ./dev setup [build|test|rig|all]
#
#   build   what building and the demo need
#   test    what the tests need, too
#   rig     what building and the tests in virtual machines need
#   all     all of it (default)
#
# The other commands install what they need themselves.
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/lib/steps.sh"
# shellcheck source=tests/dev/lib/build.sh
. "$(dirname "$0")/lib/build.sh"

! help_wanted "$@" || exit 0
arguments_max 1 "$@"
case ${1-all} in
build) setup build ;;
test) setup build test ;;
rig) setup build rig ;;
all) setup build test rig ;;
*) die setup "there are build, test, rig and all, not '$1'" ;;
esac
