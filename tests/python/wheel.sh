#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The package of a wheel, which is installed for the program RMEM_PYTHON: against a daemon, beside
# other libraries of the same symbols, and on a host without libraries of RDMA.
export FABRIC=auto
: "${RMEM_PYTHON:?is a Python with the wheel}"
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

extension=$("$python" -c 'from rmem import _rmem; print(_rmem.__file__)')
symbols=$(nm -D --defined-only "$extension" | awk '{ print $3 }')
[ "$symbols" = PyInit__rmem ] || fail "symbols that others may take: $symbols"
needed=$(readelf -d "$extension" | sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p' |
	grep -vE '^(libc\.so\.6|libm\.so\.6|ld-linux.*)$') && fail "it needs $needed"
ok "its symbols and libraries"

server_start
cases errors memory batch buffer registry queue aio notices processes stubs documents

# calls of these would end the process
cat >"$dir/other.c" <<'C'
#include <stdlib.h>
void rmem_open(void) { abort(); }
void rmem_read(void) { abort(); }
void rmem_queue_create(void) { abort(); }
void rmem_cache_open(void) { abort(); }
void ibv_get_device_list(void) { abort(); }
C
cc -shared -fPIC -o "$dir/librmem.so" "$dir/other.c"
other=$dir/librmem.so
LD_PRELOAD=$other cases session lease cache door_lmcache
ok "beside another librmem"

mkdir "$dir/libraries"
: >"$dir/libraries/libibverbs.so.1"
LD_LIBRARY_PATH=$dir/libraries:$LD_LIBRARY_PATH cases no_library
server_stop
