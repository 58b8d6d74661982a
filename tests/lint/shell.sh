#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# No script of the tree has a shellcheck message.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"

command -v shellcheck >/dev/null || { echo "no shellcheck here"; exit 77; }

scripts=()
while IFS= read -r -d '' file; do
	if [[ $file == *.sh ]] || head -n 1 "$file" | grep -qaE '^#!.*[/ ](ba|da)?sh\b'; then
		scripts+=("$file")
	fi
done < <(find dev .ci src debian etc systemd man tests -type f -print0 2>/dev/null)

shellcheck --external-sources "${scripts[@]}"
echo "shell: ${#scripts[@]} scripts"
[ ${#scripts[@]} -gt 5 ]
