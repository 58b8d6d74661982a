#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# systemd accepts the units, and the sandbox is not looser than before.
set -euo pipefail
units=${top_builddir:-.}/systemd
worst=15 # exposure in tenths, of 100: lower is tighter

command -v systemd-analyze >/dev/null || { echo "no systemd-analyze here"; exit 77; }

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# rmemd need not be installed
sed 's|^ExecStart=.*|ExecStart=/bin/true|' "$units/rmemd.service" >"$tmp/rmemd.service"
cp "$units/rmemd.socket" "$tmp"

systemd-analyze verify --man=no "$tmp/rmemd.service" "$tmp/rmemd.socket" >"$tmp/out" 2>&1 ||
	{ cat "$tmp/out"; echo "systemd-analyze verify failed"; exit 1; }
# complaints about this host's own units do not count
if grep -E 'rmemd\.(service|socket)' "$tmp/out"; then
	echo "systemd-analyze verify has complaints"
	exit 1
fi

if ! systemd-analyze security --offline=true --threshold=$worst "$tmp/rmemd.service" \
	>"$tmp/security" 2>&1; then
	cat "$tmp/security"
	echo "the sandbox has become looser"
	exit 1
fi
grep 'Overall exposure' "$tmp/security"
