#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A client made from rmem-protocol(7) walks the daemon: each request and event, each field at its
# limits and beyond, and channels over TCP.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/walk.sh"

server_start
walk vectors example sessions frames leases repeats events shares channels errors
server_stop
