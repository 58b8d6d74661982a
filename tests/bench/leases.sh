#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# what is done with all leases of a session, by their number; takes --json, --leases "N..."
#
# Over TCP on loopback, leases of 4 KiB.  Rows:
#   grant    rmem_alloc() of each
#   list     rmem_list()
#   resume   the control connection is cut: until the session is back, with all leases attached
#   reload   rmemctl reload of a tenant that may have other leases
#   close    rmem_close(); the leases have names, and stay
#   fence    a session with as many leases without names is killed: CPU time of the daemon until
#            they are free, with that of looking for this each 100 ms
#
# In milliseconds for each number of leases, 1,000 10,000 60,000 by default, and the exponent
# between the last two: 1 is a cost for each lease, 2 the square, 0 one that does not depend on
# them.  The last line has the highest.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench leases}" "${top_builddir:?}"
LEASES="1000 10000 60000"
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "leases.sh [--json] [--leases NUMBERS]" "$@"

make -s -C "$top_builddir" tests/bench/{leases,scrape-leases} >&2
BIN=$top_builddir/tests/bench
RMEMCTL=$top_builddir/src/rmemctl/rmemctl
export LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PORT=17650
URI="rmem://127.0.0.1:$PORT?fabric=tcp"
# shellcheck source=tests/bench/lib/daemon.sh
. "$top_srcdir/tests/bench/lib/daemon.sh"
# shellcheck source=tests/bench/lib/programs.sh
. "$top_srcdir/tests/bench/lib/programs.sh"
WORK=$(mktemp -d /tmp/rmem-leases-XXXXXX)
trap programs_end EXIT

now_ns()
{
	echo $((${EPOCHREALTIME/[.,]/} * 1000))
}

# of all threads of the daemon
ran_ns()
{
	cat /proc/"$DAEMON_PID"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}

# leg N: a line "NAME NANOSECONDS" for each row
leg()
{
	local n=$1 begin

	LEG=$WORK/$n
	mkdir "$LEG"
	daemon_start "$LEG" 127.0.0.1 "$PORT" tcp "[session]
heartbeat = 1s
fence = 4s
grace = 1s
[tenant default]
leases = 1000000
[pool main]
size = $((2 * n * 4 / 1024 + 16))M" "$top_builddir/src/rmemd/rmemd"
	program leases "$BIN/leases" "$URI" "$PORT" "$n"
	sed -i 's/^leases = .*/leases = 2000000/' "$LEG/rmemd.conf"
	begin=$(now_ns)
	daemon_ctl reload >/dev/null
	echo "reload $(($(now_ns) - begin))"
	program_go leases
	program_await leases
	grep -v ready "$LEG/leases.out"
	program killed "$BIN/scrape-leases" "$URI" "$n"
	begin=$(ran_ns)
	kill -KILL "${PROGRAMS[killed]}"
	wait "${PROGRAMS[killed]}" 2>/dev/null || true
	unset "PROGRAMS[killed]"
	until [ "$(daemon_ctl status | jq .leases.ephemeral)" = 0 ]; do
		sleep 0.1
	done
	echo "fence $(($(ran_ns) - begin))"
	kill "$DAEMON_PID"
	wait "$DAEMON_PID" || true
}

for n in $LEASES; do
	leg "$n" >"$WORK/leg"
	sed "s/^/$n /" "$WORK/leg" >>"$WORK/rows"
done
jq -Rcs '
split("\n") | map(select(. != "") | split(" ")
	| {n: (.[0] | tonumber), what: .[1], ms: ((.[2] | tonumber) / 1e6 | . * 100 | round / 100)})
| . as $all
| ["grant", "list", "resume", "reload", "close", "fence"]
| map(. as $what | [$all[] | select(.what == $what)] as $at | {what: $what, ms: ($at | map(.ms)),
	exponent: (if ($at | length) < 2 then null
		else (($at[-1].ms / $at[-2].ms | log) / ($at[-1].n / $at[-2].n | log)
			* 100 | round / 100) end)})
| {leases: ($all | map(.n) | unique), rows: ., worst: {exponent: (map(.exponent) | max)}}' \
	"$WORK/rows" >"$WORK/result"
if [ -n "$JSON" ]; then
	cat "$WORK/result"
	exit 0
fi
jq -r '(["ms"] + .leases + ["exponent"]), (.rows[] | [.what, .ms[], .exponent // "-"])
	| map(tostring) | join(" ")' "$WORK/result" |
	awk '{ printf "%-8s", $1; for (i = 2; i <= NF; i++) printf " %10s", $i; print "" }'
jq -r '"worst: exponent \(.worst.exponent)"' "$WORK/result"
