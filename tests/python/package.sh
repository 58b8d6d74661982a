#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The Python package against a daemon.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

server_start
cases errors session lease memory batch buffer registry queue aio operation
cases cache notices processes reentry stubs documents leaks
server_stop
