#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Run `make check` with sanitizers, and built by clang.
#
# Each kind has a build folder of its own, build-KIND:
#
#   asan       AddressSanitizer and UndefinedBehaviorSanitizer
#   tsan       ThreadSanitizer
#   integers   clang: sums and products that wrap, and narrowing that loses bits
#   clang      clang alone
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/lib/steps.sh"
# shellcheck source=tests/dev/lib/build.sh
. "$(dirname "$0")/lib/build.sh"
# shellcheck source=tests/dev/lib/results.sh
. "$(dirname "$0")/lib/results.sh"
# shellcheck source=tests/dev/lib/sanitizers.sh
. "$(dirname "$0")/lib/sanitizers.sh"

! help_wanted "$@" || exit 0
arguments_max 0 "$@"
tests_begin
setup build test clang
passed=0 failed=0 skipped=0
while read -r name options; do
	say sanitize "$name: $options"
	# shellcheck disable=SC2086 # a list
	build "build-$name" $options
	check_make check
	passed=$((passed + PASSED)) failed=$((failed + FAILED)) skipped=$((skipped + SKIPPED))
done <<END
asan --enable-sanitizers=address,undefined
tsan --enable-sanitizers=thread
integers CC=clang --enable-sanitizers=$INTEGERS
clang CC=clang
END
PASSED=$passed FAILED=$failed SKIPPED=$skipped
tests_result
