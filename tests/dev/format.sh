#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Format all C files.
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/lib/steps.sh"

! help_wanted "$@" || exit 0
arguments_max 0 "$@"
command -v clang-format-19 >/dev/null || die format "clang-format-19 is missing: ./dev setup"
say format "$(top_srcdir=$TOP bash "$TOP/tests/lint/format.sh" --write)"
