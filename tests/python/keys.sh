#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The Python package with pre-shared keys that the program supplies.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

"$RMEMCTL" keygen default "$dir"
"$RMEMCTL" keygen red "$dir"
config_extra="
[tenant default]
[tenant red]
[server]
auth = psk
psk = $dir/rmemd.psk
"
server_start
export KEYS=$dir
cases keys
server_stop
