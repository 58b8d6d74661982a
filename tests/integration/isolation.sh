#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Sessions cannot access memory of each other without the right to it.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

server_start
timeout $((120 * patience)) "$(built tests/integration/isolation)" "$uri" ||
	fail "isolation: status $?"
lent_zero 20
server_stop
