#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Many operations of the Python package, and large ones: RMEM_PYTHON_OPERATIONS of each kind.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

pool_size=320M
fence=120s
server_start
cases large many cancel
server_stop
