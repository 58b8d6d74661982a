#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A client and a server in Python, which know rmem-protocol(7) alone, walk the daemon and the library:
# each request and event, each field at its limits and beyond.
# shellcheck source-path=SCRIPTDIR/../integration
. "$(dirname "$0")/../integration/lib.sh"
need python3 jq

state_dir=$(mktemp -d /dev/shm/rmem-test.XXXXXX)
test_cleanup()
{
	rm -rf "$state_dir"
}

failed=no

# walk NAME...: the cases of tests/conformance/walk_NAME.py
walk()
{
	PORT=${port:-} FOLDER=$dir LISTEN=$LISTEN RMEM=$RMEM RMEMCTL=$RMEMCTL RMEMD=$RMEMD top_srcdir=$top_srcdir \
		PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/conformance.py" "$@"
}

tenants="
[tenant default]
[tenant red]
[tenant blue]
"
config_extra=$tenants
server_start
walk late >"$dir/late.out" &
late_pid=$!
pids+=("$late_pid")
walk vectors sessions frames leases repeats events shares channels || failed=yes
walk library || failed=yes
process_await "$late_pid" 60 || fail "walk late does not end"
cat "$dir/late.out"
[ "$process_status" -eq 0 ] || failed=yes
server_stop

heartbeat=100ms
fence=400ms
grace=600ms
server_start
walk silence || failed=yes
server_stop

fence=10s
grace=10s
state=$state_dir
ports_choose
server_config
server_log=$dir/rmemd.log
walk end || failed=yes

[ "$failed" = no ] || fail "cases have failed"
