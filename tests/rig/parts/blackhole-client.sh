# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
: "${top_srcdir:?}"
keys_take
bash "$top_srcdir/tests/fault/blackhole.sh" client || fail "blackhole, client: status $?"
