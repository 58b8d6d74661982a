#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# cppcheck has no warnings; a false one is suppressed in its line, with the reason.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"

command -v cppcheck >/dev/null || { echo "no cppcheck here"; exit 77; }

cppcheck --quiet --std=c11 --platform=unix64 --enable=warning,performance,portability \
	--library=python --inline-suppr --error-exitcode=1 \
	--suppress=normalCheckLevelMaxBranches \
	-j "$(nproc)" -D__linux__ -D__GNUC__=12 -DSYSCONFDIR='""' -DRUNSTATEDIR='""' \
	-DPACKAGE_VERSION='""' -DJSON_INTEGER_FORMAT='"lld"' -Isrc -Iinclude src
