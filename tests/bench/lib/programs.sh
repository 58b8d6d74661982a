# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by benchmarks: programs in the background, which print "ready" or "idle" and wait for a
# line then.  LEG is the folder of their output, WORK the folder that is removed at the end.

declare -A PROGRAMS=() # process ids

# program NAME COMMAND...: start one, and wait until it is ready
program()
{
	local name=$1

	shift
	mkfifo "$LEG/$name.go"
	"$@" <>"$LEG/$name.go" >"$LEG/$name.out" 2>"$LEG/$name.err" &
	PROGRAMS[$name]=$!
	until grep -qsE '^(ready|idle)$' "$LEG/$name.out"; do
		kill -0 "${PROGRAMS[$name]}" 2>/dev/null || exit 1
		sleep 0.05
	done
}

# program_go NAME: let it go on
program_go()
{
	# nobody would read the line of one that has ended
	kill -0 "${PROGRAMS[$1]}" 2>/dev/null || { echo "$1 has ended" >&2; exit 1; }
	echo >"$LEG/$1.go"
}

# program_await NAME: wait for its end
program_await()
{
	wait "${PROGRAMS[$1]}" || exit 1
	unset "PROGRAMS[$1]"
	rm "$LEG/$1.go"
}

# At the end of the script: say why, end what an error has left.
programs_end()
{
	local status=$? pid

	[ "$status" -eq 0 ] || tail -n 5 "$LEG"/*.err "$LEG/rmemd.log" >&2 || true
	for pid in "${PROGRAMS[@]}" ${DAEMON_PID:+"$DAEMON_PID"}; do
		kill -KILL "$pid" 2>/dev/null || true
	done
	rm -rf "$WORK"
}
