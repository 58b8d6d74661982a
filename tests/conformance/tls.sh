#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The client of this folder under TLS, with pre-shared keys.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/walk.sh"
python3 -c 'import ctypes.util, sys; sys.exit(not ctypes.util.find_library("ssl"))' || skip "Python finds no libssl"

"$RMEMCTL" keygen default "$dir"
"$RMEMCTL" keygen red "$dir"
config_extra+="
[server]
auth = psk
psk = $dir/rmemd.psk
[tcp]
tls = yes
"
server_start
walk tls
server_stop
