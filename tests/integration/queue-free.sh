#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A queue is freed while its channels are being connected to a peer that does not answer.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1

server_start
timeout $((60 * patience)) "$(built tests/integration/queue-free)" "$uri" ||
	fail "queue-free: status $?"
lent_zero 20
server_stop
