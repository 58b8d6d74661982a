#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The client of this folder is silent or late, and sees a daemon drained, killed, and stopped.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/walk.sh"

state_dir=$(mktemp -d /dev/shm/rmem-test.XXXXXX)
test_cleanup()
{
	rm -rf "$state_dir"
}

server_start
walk late
server_stop

heartbeat=100ms
fence=400ms
grace=600ms
server_start
walk silence
server_stop

fence=10s
grace=10s
state=$state_dir
ports_choose
server_config
server_log=$dir/rmemd.log
walk end
