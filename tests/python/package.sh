#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The Python package against a daemon.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

server_start
cases errors session lease memory batch buffer registry queue aio
cases cache notices processes reentry stubs documents leaks
mkdir "$dir/driver"
cc -shared -fPIC -o "$dir/driver/libcuda.so.1" "$top_srcdir/tests/python/libcuda.c"
LD_LIBRARY_PATH=$dir/driver:$LD_LIBRARY_PATH cases cuda
server_stop
