#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A client and a server in Python, which know rmem-protocol(7) alone, walk the daemon and the library:
# each request and event, each field at its limits and beyond.
# shellcheck source-path=SCRIPTDIR/../integration
. "$(dirname "$0")/../integration/lib.sh"
need python3 jq

# walk NAME...: the cases of tests/conformance/walk_NAME.py
walk()
{
	PORT=${port:-} ADMIN=$dir/admin.sock LISTEN=$LISTEN RMEM=$RMEM RMEMCTL=$RMEMCTL top_srcdir=$top_srcdir \
		PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/conformance.py" "$@" || failed=yes
}

failed=no
config_extra="
[tenant default]
[tenant red]
[tenant blue]
"
walk vectors
walk library
server_start
walk sessions frames leases repeats events shares channels
server_stop
[ "$failed" = no ] || fail "cases have failed"
