# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
: "${top_srcdir:?}"
SERVER_LINES=$(keys_lines)
export SERVER_LINES
bash "$top_srcdir/tests/fault/blackhole.sh" server || fail "blackhole, server: status $?"
