#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# how many functions and files of src one call passes, counted under callgrind; takes --json
#
# Over a build of its own without optimisation and inlining, so that static functions and those
# of headers count; a header is a file.  Of the library: one call from its entry to its return,
# after a thousand others, over verbs and a device that does nothing.  Of the daemon: all that its
# main thread does from the moment it receives a request to allocate until the client has the
# answer, over TCP; the least of several requests, as a timer may go off meanwhile.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench paths}" "${top_builddir:?}"
JSON=
case ${1-} in
--json) JSON=yes ;;
'') ;;
--list) ;; # print the functions too
*)
	echo "usage: paths.sh [--json | --list]" >&2
	exit 2
	;;
esac
LIST=${1-}

command -v valgrind >/dev/null || {
	echo "paths: valgrind is missing: apt-get install valgrind" >&2
	exit 1
}
BUILD=$top_builddir/paths
WORK=$(mktemp -d)
server=
# shellcheck disable=SC2317 # it is the trap
finish()
{
	[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
	rm -rf "$WORK"
}
trap finish EXIT

build()
{
	mkdir -p "$BUILD"
	cd "$BUILD"
	# without always_inline, and without what needs optimisation
	[ -f config.status ] || "$(cd "$top_srcdir" && pwd)/configure" \
		CFLAGS="-g -O0 -fno-inline -Dalways_inline= -U_FORTIFY_SOURCE -Wno-error"
	make -j"$(nproc)" src/rmemd/rmemd src/rmemctl/rmemctl tests/bench/instructions \
		tests/bench/paths
}
(build) >"$WORK/build" 2>&1 || {
	tail -n 20 "$WORK/build" >&2
	exit 1
}

# functions OUT...: the functions of src that have a cost in what callgrind wrote, by file
functions()
{
	awk '
		/^fl=/ { file = substr($0, 4) }
		/^fn=/ { name = substr($0, 4); sub(/\x27[0-9]+$/, "", name) }
		/^(fl|fn|ob|fi|fe|cfi|cfl|cfn|cob|calls|jump|jcnd)[= ]/ { next }
		/^[0-9+*-]/ && match(file, /(^|\/)src\/[a-z]+\/.*/) {
			path = substr(file, RSTART)
			sub(/^\//, "", path)
			# valgrind and the library have folders of these names too
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
		[ "$LIST" != --list ] || sed 's/^/  /' "$2"
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

daemon_start()
{
	cat >"$WORK/rmemd.conf" <<-CONF
		[server]
		listen = 127.0.0.1
		port = 17480
		insecure = yes
		[tcp]
		port = 17481
		[rdma]
		enabled = no
		[admin]
		socket = $WORK/admin.sock
		[log]
		target = stderr
		[pool main]
		size = 16M
	CONF
	valgrind --tool=callgrind --separate-threads=yes --compress-strings=no \
		--compress-pos=no --callgrind-out-file="$WORK/daemon" \
		"$BUILD/src/rmemd/rmemd" --config "$WORK/rmemd.conf" >"$WORK/log" 2>&1 &
	server=$!
	for ((i = 0; i < 600; i++)); do
		! "$BUILD/src/rmemctl/rmemctl" --socket "$WORK/admin.sock" status \
			>/dev/null 2>&1 || return 0
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	cat "$WORK/log" >&2
	exit 1
}

# The dumps of the main thread are $WORK/daemon.N-01; the count is set to zero before each
# request and by each dump.
daemon()
{
	local answer n least=0

	daemon_start
	coproc PROGRAM { exec "$BUILD/tests/bench/paths" "rmem://127.0.0.1:17480?fabric=tcp"; }
	for ((i = 0; i < 6; i++)); do
		callgrind_control --zero "$server" >/dev/null 2>&1
		echo >&"${PROGRAM[1]}"
		read -r answer <&"${PROGRAM[0]}"
		[ "$answer" = allocated ] || { echo "paths: $answer" >&2; exit 1; }
		callgrind_control --dump "$server" >/dev/null 2>&1
		functions "$WORK/daemon.$((i + 1))-01" >"$WORK/list.$i"
		n=$(wc -l <"$WORK/list.$i")
		# the first one sets up what later ones use
		if ((i == 1)) || ((i > 1 && n < least)); then
			least=$n
			cp "$WORK/list.$i" "$WORK/list"
		fi
	done
	kill "$server"
	wait "$server" || true
	server=
	row "allocate, in the daemon" "$WORK/list"
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
[ -z "$JSON" ] || echo ']}'
