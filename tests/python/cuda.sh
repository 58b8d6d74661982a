#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Memory of GPUs, with a stand-in for CUDA's driver.  The rig runs it too, where the kernel has
# dma-bufs.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

mkdir "$dir/driver"
cc -shared -fPIC -o "$dir/driver/libcuda.so.1" "$top_srcdir/tests/python/libcuda.c"
export LD_LIBRARY_PATH=$dir/driver:$LD_LIBRARY_PATH
server_start
cases cuda
server_stop
