#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Atomics: none is lost, a device without them is named, one device executes those of a lease.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

server_start
others=()
[ "$FABRIC" = tcp ] || others=("rmem://$LISTEN:$port?fabric=tcp")
timeout $((120 * patience)) "$(built tests/integration/atomics)" "$uri" "${others[@]}" ||
	fail "atomics: status $?"
lent_zero 20
server_stop
