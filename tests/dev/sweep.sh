#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Fail each call of the daemon and the library once.
#
# usage: ./dev sweep [daemon|library] [OPTION...]
#
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/lib/steps.sh"
# shellcheck source=tests/dev/lib/build.sh
. "$(dirname "$0")/lib/build.sh"

if help_wanted "$@"; then
	sed -n '/^ \*     --/s/^ \*     /  /p' "$TOP/tests/sweep/sweep.c"
	exit 0
fi
targets=(daemon library)
case ${1-} in
daemon | library)
	targets=("$1")
	shift
	;;
--seconds) # the soaks have it; this one ends by itself
	shift 2
	;;
esac
tree_check
setup build
build build-asan --enable-sanitizers=address,undefined
step make-sweep make -C "$BUILD" -j"$JOBS" tests/sweep/sweep tests/sweep/session libsweep.la
err=0
for target in "${targets[@]}"; do
	say sweep "the calls of the $target"
	"$BUILD/tests/sweep/sweep" --jobs "$JOBS" --places "$@" "$target" "$BUILD" || err=1
done
exit "$err"
