#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The doors to inference engines against a daemon, called as the engines call them.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

export RMEM
server_start
cases door_lmcache door_sglang door_vllm door_documents
server_stop
# these start and kill a daemon themselves
export RMEMD CONFIG=$dir/rmemd.conf
cases doors_lost
