#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The examples succeed with one channel and with several, and leave nothing behind.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq

server_start
for name in hello async named notify eventloop; do
	for channels in 1 3; do
		output=$("${client_exec[@]}" timeout -k 5 $((60 * patience)) \
			"$(built "src/examples/$name")" \
			"$uri&channels=$channels") || fail "$name ended with status $?"
		[ "$output" = "$name: OK" ] || fail "$name printed: $output"
	done
	ok "$name"
	expect_error 2 "^usage: $name URI" "$(built "src/examples/$name")"
	expect_error 1 "^$name: ." "$(built "src/examples/$name")" "rmem://$LISTEN:1"
done
lent_zero 20
server_stop
