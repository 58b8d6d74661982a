#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Who may include whom: the table below; folders not in it are refused.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"

# folder: the folders and headers it may include, besides itself and the system's.
# In the daemon calls go down: control, lease, pool; config.h is known to all of it.
rules='
include/rmem
src/base
src/wire: base
src/fabric: base
src/fabric/tcp: base fabric
src/fabric/verbs: base fabric
src/librmem: base wire fabric rmem/rmem.h
src/rmemd: base wire fabric rmemd/control rmemd/ledger rmemd/lease rmemd/pool rmemd/admin
src/rmemd/control: base wire fabric rmemd/ledger rmemd/lease rmemd/pool rmemd/config.h
src/rmemd/lease: base wire fabric rmemd/ledger rmemd/pool rmemd/config.h
src/rmemd/ledger: base
src/rmemd/pool: base rmemd/config.h
src/rmemd/admin: base fabric rmemd rmemd/control rmemd/lease rmemd/pool
src/rmem: base rmem/rmem.h
src/rmemctl: base
src/examples: rmem/rmem.h
'

bad=0
report()
{
	echo "$1:$2: $3"
	bad=$((bad + 1))
}

# check FILE FOLDER ALLOWED
check()
{
	local file=$1 folder=$2 allowed=" $3 " own=${2#src/} line text header wants
	local form='^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]([^>"]*)[>"]'

	while IFS=: read -r line text; do
		[[ $text =~ $form ]] || { report "$file" "$line" "an include of no known form"; continue; }
		header=${BASH_REMATCH[1]}
		case $header in
		infiniband/* | rdma/*)
			wants=fabric-only
			[[ $folder != src/fabric* ]] || continue
			;;
		event2/* | event.h)
			wants=event
			[[ $folder == src/base || $folder == src/wire ]] || continue
			;;
		rmem/rmem.h) wants=$header ;;
		*)
			[[ $text == *'"'* ]] || continue
			wants=$(dirname "$header")
			[ "$wants" != . ] || wants=$own
			;;
		esac
		[ "$wants" = "$own" ] || [[ $allowed == *" $wants "* ]] ||
			[[ $allowed == *" $header "* ]] ||
			report "$file" "$line" "$folder must not include $header"
	done < <(grep -nE '^[[:space:]]*#[[:space:]]*include' "$file")
}

count=0
while read -r file; do
	folder=$(dirname "$file")
	rule=$(grep -E "^$folder(:|\$)" <<<"$rules" || true)
	if [ -z "$rule" ]; then
		report "$file" 1 "folder $folder has no rule in tests/lint/layers.sh"
		continue
	fi
	case $rule in
	*:*) allowed=${rule#*:} ;;
	*) allowed= ;;
	esac
	check "$file" "$folder" "$allowed"
	count=$((count + 1))
done < <(find src include -name '*.[ch]' | sort)

echo "layers: $count files, $bad broken rules"
[ "$count" -gt 20 ] || { echo "layers: found too few files to believe it"; exit 1; }
[ "$bad" -eq 0 ]
