#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# number of functions and files of src that one call passes; takes --json, --list
# packages: valgrind
#
# Counted under callgrind in a separate build without optimisation and inlining, so that static
# functions and those of headers count; a header is a file.  --list prints the functions.
# - librmem: one call from entry to return, after a thousand others, over verbs and a null device.
# - rmemd: what its main thread runs from the receipt of a request to allocate until the client has
#   the answer, over TCP; the minimum of several requests, because a timer may fire during one.
# - rmemd, killed and restarted: what its main thread runs from its start until a session of before
#   has the answer to a request to allocate, and until it has ended.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench paths}" "${top_builddir:?}"
LIST=
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "paths.sh [--json] [--list]" "$@"

command -v valgrind >/dev/null || {
	echo "paths: valgrind is missing: apt-get install valgrind" >&2
	exit 1
}
BUILD=$top_builddir/paths
RMEMCTL=$BUILD/src/rmemctl/rmemctl
WORK=$(mktemp -d)
STATE=$(mktemp -d /dev/shm/rmem-paths.XXXXXX)
POOL="[pool main]
size = 16M"
CALLGRIND=(valgrind --tool=callgrind --separate-threads=yes --compress-strings=no --compress-pos=no
	--callgrind-out-file="$WORK/daemon")
# shellcheck source=tests/bench/lib/daemon.sh
. "$top_srcdir/tests/bench/lib/daemon.sh"
# shellcheck disable=SC2317 # called by the trap
finish()
{
	[ -z "$DAEMON_PID" ] || kill -KILL "$DAEMON_PID" 2>/dev/null || true
	rm -rf "$WORK" "$STATE"
}
trap finish EXIT

build()
{
	mkdir -p "$BUILD"
	cd "$BUILD"
	# always_inline is defined away; _FORTIFY_SOURCE needs optimisation
	[ -f config.status ] || "$(cd "$top_srcdir" && pwd)/configure" \
		CFLAGS="-g -O0 -fno-inline -Dalways_inline= -U_FORTIFY_SOURCE -Wno-error"
	make -j"$(nproc)" src/rmemd/rmemd src/rmemctl/rmemctl tests/bench/instructions \
		tests/bench/paths
}
(build) >"$WORK/build" 2>&1 || {
	tail -n 20 "$WORK/build" >&2
	exit 1
}

# functions OUT...: "FILE FUNCTION" for each function of src with a cost in callgrind's files
functions()
{
	awk '
		/^fl=/ { file = substr($0, 4) }
		/^fn=/ { name = substr($0, 4); sub(/\x27[0-9]+$/, "", name) }
		/^(fl|fn|ob|fi|fe|cfi|cfl|cfn|cob|calls|jump|jcnd)[= ]/ { next }
		/^[0-9+*-]/ && match(file, /(^|\/)src\/[a-z]+\/.*/) {
			path = substr(file, RSTART)
			sub(/^\//, "", path)
			# other programs that valgrind sees have a folder src, too
			if (path ~ /^src\/(base|wire|fabric|librmem|rmemd)\//) print path, name
		}' "$@" | sort -u
}

# row CALL LIST: a file of lines "FILE FUNCTION"
row()
{
	local n files

	n=$(wc -l <"$2")
	files=$(cut -d' ' -f1 "$2" | sort -u | wc -l)
	[ "$n" -gt 3 ] || { echo "paths: $1: $n functions counted" >&2; exit 1; }
	if [ -n "$JSON" ]; then
		printf '%s{"call":"%s","functions":%d,"files":%d}' "$SEPARATOR" "$1" "$n" "$files"
		SEPARATOR=,
	else
		printf '%-46s %9d %9d\n' "$1" "$n" "$files"
		[ -z "$LIST" ] || sed 's/^/  /' "$2"
	fi
}

# library TEXT CALL OP
library()
{
	rm -f "$WORK/out"
	valgrind --tool=callgrind --collect-atstart=no --toggle-collect=measured \
		--compress-strings=no --compress-pos=no --callgrind-out-file="$WORK/out" \
		"$BUILD/tests/bench/instructions" "$2" "$3" 64 1 1 1 >"$WORK/said" 2>&1 || {
		cat "$WORK/said" >&2
		exit 1
	}
	functions "$WORK/out" >"$WORK/list"
	row "$1" "$WORK/list"
}

program_start()
{
	coproc PROGRAM { exec "$BUILD/tests/bench/paths" "rmem://127.0.0.1:17480?fabric=tcp"; }
}

# the program ends with its input
program_end()
{
	local pid=$PROGRAM_PID input=${PROGRAM[1]}

	exec {input}>&-
	wait "$pid" || true
}

# request: the client allocates a lease
request()
{
	local answer

	echo >&"${PROGRAM[1]}"
	read -r answer <&"${PROGRAM[0]}"
	[ "$answer" = allocated ] || { echo "paths: $answer" >&2; exit 1; }
}

daemon_end()
{
	kill "$@" "$DAEMON_PID"
	wait "$DAEMON_PID" 2>/dev/null || true
	DAEMON_PID=
}

# The dumps of the main thread are $WORK/daemon.N-01; the counters are set to zero before each
# request and by each dump.
daemon()
{
	local n least=0

	daemon_start "$WORK" 127.0.0.1 17480 tcp "$POOL" "${CALLGRIND[@]}" "$BUILD/src/rmemd/rmemd"
	program_start
	for ((i = 0; i < 6; i++)); do
		callgrind_control --zero "$DAEMON_PID" >/dev/null 2>&1
		request
		callgrind_control --dump "$DAEMON_PID" >/dev/null 2>&1
		functions "$WORK/daemon.$((i + 1))-01" >"$WORK/list.$i"
		n=$(wc -l <"$WORK/list.$i")
		# the first request also initialises what later ones use
		if ((i == 1)) || ((i > 1 && n < least)); then
			least=$n
			cp "$WORK/list.$i" "$WORK/list"
		fi
	done
	program_end
	daemon_end
	row "allocate, in the daemon" "$WORK/list"
}

# The memory is kept in files.
restart()
{
	local keep="[server]
state = $STATE
$POOL"

	daemon_start "$WORK" 127.0.0.1 17480 tcp "$keep" "$BUILD/src/rmemd/rmemd"
	program_start
	request
	daemon_end -KILL
	rm -f "$WORK"/daemon*
	daemon_start "$WORK" 127.0.0.1 17480 tcp "$keep" "${CALLGRIND[@]}" "$BUILD/src/rmemd/rmemd"
	request
	program_end
	daemon_end
	functions "$WORK"/daemon*-01 >"$WORK/list"
	row "kill, restart and allocate, in the daemon" "$WORK/list"
}

SEPARATOR=
if [ -n "$JSON" ]; then
	printf '{"rows":['
else
	printf '%-46s %9s %9s\n' "call" functions files
fi
library "rmem_write of 64 B from plain memory" plain write
library "rmem_write of 64 B from registered memory" registered write
library "rmem_read of 64 B to plain memory" plain read
library "rmem_read of 64 B to registered memory" registered read
library "queue: write of 64 B, submitted and polled" rmem write
library "queue: read of 64 B, submitted and polled" rmem read
daemon
restart
[ -z "$JSON" ] || echo ']}'
