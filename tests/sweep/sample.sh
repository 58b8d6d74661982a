#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A sample of the sweep: each call of the daemon for threads and mappings fails once.
set -euo pipefail
: "${top_builddir:?}"
if [ "$(stat -f -c %T /dev/shm)" != tmpfs ]; then
	echo "SKIP: /dev/shm is no tmpfs"
	exit 77
fi
if grep -q -- -fsanitize=thread "$top_builddir/Makefile"; then
	echo "SKIP: ThreadSanitizer cannot have a library preloaded that defines malloc()"
	exit 77
fi
"$top_builddir/tests/sweep/sweep" --class thread --class mapping daemon "$top_builddir"
