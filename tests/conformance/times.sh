#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The client of this folder is silent or late, and sees a daemon drained, killed, and stopped.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/walk.sh"

heartbeat=500ms
fence=2s
grace=1s
server_start
walk late >"$dir/late.out" &
late_pid=$!
pids+=("$late_pid")
walk silence
process_await "$late_pid" 60 || fail "walk late does not end"
cat "$dir/late.out"
[ "$process_status" -eq 0 ] || fail "it has failed"
server_stop

fence=10s
grace=10s
state_keep
ports_choose
server_config
walk end
