#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every source file has the licence line, and no line ends in blanks or marks unfinished work.  Long
# files and functions are printed, not refused.  Each file and function that src/README.md names
# exists.
set -euo pipefail
cd "${top_srcdir:-$(dirname "$0")/../..}"

bad=0
report()
{
	echo "$1"
	bad=$((bad + 1))
}

mapfile -t sources < <(find dev .ci src include man tests debian etc systemd \
	\( -name .deps -o -name .libs \) -prune -o -type f -print 2>/dev/null | sort)
texts=()
for file in "${sources[@]}"; do
	case $file in
	*.[ch] | *.sh | *.am | *.[1-8] | dev | .ci/run) ;;
	*)
		read -rn 2 begin <"$file" 2>/dev/null || true
		[ "$begin" = '#!' ] || continue
		;;
	esac
	texts+=("$file")
done
count=${#texts[@]}
while read -r file; do
	report "$file: no SPDX line in the first three"
done < <(awk 'function ended() { if (file != "" && !seen) print file }
	FNR == 1 { ended(); file = FILENAME; seen = 0 }
	FNR <= 3 && /SPDX-License-Identifier: BSD-3-Clause/ { seen = 1 }
	END { ended() }' "${texts[@]}")
while IFS=: read -r file line _; do
	report "$file:$line: blanks at the end of the line"
done < <(grep -HnE '[[:blank:]]+$' "${texts[@]}" || true)
# spelt so that this file does not name them
while IFS=: read -r file line _; do
	report "$file:$line: says that something is left to do"
done < <(grep -HnE '\b(TO''DO|FIX''ME|XX''X)\b' "${texts[@]}" || true)

for file in "${sources[@]}"; do
	[[ $file == *.[ch] ]] || continue
	lines=$(wc -l <"$file")
	[ "$lines" -le 500 ] || echo "note: $file has $lines lines"
	awk -v file="$file" '
		/^\{$/ { start = NR }
		/^\}$/ && start { if (NR - start - 1 > 50) {
			printf "note: %s:%d: a function of %d lines\n", file, start, NR - start - 1
		} start = 0 }' "$file"
done

# An event of the daemon is made by event_make(), so that the longest turn has its callback.  The
# two files with events of libevent's own, of listeners and of HTTP, begin their callbacks with
# turn_work().
makers='event(_assign|_base_once|_new)|evtimer_(new|assign)|evsignal_(new|assign)'
owners='evconnlistener_new(_bind)?|evhttp_(new|start)|bufferevent_[a-z]+_new'
while IFS=: read -r file line _; do
	report "$file:$line: an event that event_make() does not make"
done < <(grep -rHnE "\b($makers)\(" src/rmemd --include='*.[ch]' |
	grep -v '^src/rmemd/loop/events\.c:' || true
	grep -rHnE "\b($owners)\(." src/rmemd --include='*.[ch]' |
		grep -vE '^src/rmemd/(admin/http|control/listener)\.c:' || true)

# the archive of `make dist` has every source
automake=$(find src -name '*.am' -exec cat {} +)
for file in "${sources[@]}"; do
	[[ $file != src/*.[ch] ]] || grep -qF "$file" <<<"$automake" ||
		report "$file: no module.am names it"
done

# the page of the sources names files that exist
printf -v listed '%s\n' "${sources[@]}"
while read -r name; do
	grep -qE "(^|/)${name//\*/[a-z_]*}\$" <<<"$listed" ||
		report "src/README.md: there is no $name"
done < <(grep -oE '[a-z_*/]+\.(c|h|map)\b' src/README.md | sort -u)
# ... and functions, structures and constants of these names
while read -r name; do
	grep -rqw --include='*.[ch]' -- "$name" src include ||
		report "src/README.md: no source has $name"
done < <(sed -E 's,[a-z_*/-]+\.(c|h|map|sh),,g' src/README.md |
	grep -oE '\b[A-Za-z]+(_[A-Za-z0-9]+)+\b' | sort -u)

echo "files: $count looked at, $bad complaints"
[ "$count" -gt 20 ] && [ "$bad" -eq 0 ]
