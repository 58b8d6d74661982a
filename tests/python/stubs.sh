#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The types that _rmem.pyi has are those of the extension, as mypy reads both.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"

"$python" -c 'import mypy' 2>/dev/null || skip "mypy is not installed"
# Python looks for it from 3.12 on
echo rmem._rmem.Buffer.__buffer__ >"$dir/allowed"
cd "$dir"
MYPYPATH=$dir/package PYTHONPATH=$dir/package "${as_python[@]}" "$python" -m mypy.stubtest \
	--allowlist "$dir/allowed" --ignore-unused-allowlist rmem._rmem >"$dir/found" 2>&1 ||
	fail "$(head -n 40 "$dir/found")"
