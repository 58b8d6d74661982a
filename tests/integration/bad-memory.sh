#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A program that names memory which is not there gets EFAULT, and goes on.  channel-tls.sh has the
# same over TLS.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1

one_thread_with_tsan
server_start
timeout $((120 * patience)) "$(built tests/integration/bad-memory)" "$uri" "$FABRIC" ||
	fail "bad-memory: status $?"
lent_zero 20
server_stop
