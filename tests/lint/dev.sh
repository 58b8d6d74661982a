#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# ./dev in a source tree that itself is configured: one line names the remedy, and nothing is
# installed or built.
set -u
: "${top_srcdir:?}"
tmp=$(mktemp -d "${TMPDIR:-/tmp}/rmem-lint.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
cp "$top_srcdir/dev" "$tmp/dev" || exit 1
touch "$tmp/config.status"

for command in demo check soak sanitize 'bench loopback'; do
	status=0
	# shellcheck disable=SC2086 # a command and its arguments
	timeout 20 "$tmp/dev" $command >"$tmp/out" 2>&1 </dev/null || status=$?
	if [ "$status" -ne 1 ] || [ "$(wc -l <"$tmp/out")" -ne 1 ] ||
		! grep -q 'make distclean' "$tmp/out"; then
		cat "$tmp/out"
		echo "./dev $command: status $status, or other lines than what to do"
		exit 1
	fi
done
[ "$(ls "$tmp")" = "$(printf '%s\n' config.status dev out)" ] || {
	ls "$tmp"
	echo "./dev left something behind"
	exit 1
}
