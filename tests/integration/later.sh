#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Daemon and clients of which one is of a later version of the protocol work together.  The later
# version is a build of this tree that later.patch gives a request, an event and a capability more;
# messages have a field more.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq patch

later=$dir/later
longer=(hello open_channel allocate attach error welcome lease revoked)

# A field more in each message of `longer`.
lengthen()
{
	local header=$later/tree/src/wire/msg.h name
	for name in "${longer[@]}"; do
		sed -i "/^#define WIRE_FIELDS_$name(/,/[^\\\\]\$/{
			s/[^\\\\]\$/& LATER U32(made_up)/
		}" "$header"
	done
	[ "$(grep -c 'LATER U32(made_up)$' "$header")" -eq ${#longer[@]} ]
}

# The later version, with the options of this build.
later_build()
{
	local options
	options=$("$top_builddir/config.status" --config)
	mkdir -p "$later/build" &&
		make -s -C "$top_builddir" distdir distdir="$later/tree" &&
		chmod -R u+w "$later/tree" &&
		patch -s -p0 -d "$later/tree" <"$top_srcdir/tests/integration/later.patch" &&
		lengthen &&
		cd "$later/build" &&
		eval "../tree/configure $options" "CFLAGS='-O0 -Wno-error'" --srcdir=../tree &&
		make -s -j2 src/rmemd/rmemd src/rmem/rmem
}

# talk NAME EXPECTED...: a client of the one version and a daemon of the other do all that both
# know, and say of the rest what is expected, in the logs of both
talk()
{
	local name=$1
	shift
	server_start
	client put a "$dir/in"
	client get a "$dir/out"
	same "$dir/in" "$dir/out"
	background watch watch a
	status_await '.sessions.active == 1' 20 || fail "$name: the watch does not start"
	poll_await 20 client notify a 7 || fail "$name: a notification is refused"
	poll_await 20 grep -q 7 "$dir/watch.out" || fail "$name: no notification comes"
	client rm a
	process_await "$client_pid" 20 || fail "$name: the watch goes on"
	! client get a "$dir/out" 2>"$dir/err" || fail "$name: it is still there"
	grep -q "no lease" "$dir/err" ||
		fail "$name: the error's text does not arrive: $(cat "$dir/err")"
	client ping -c 1 >"$dir/ping" 2>&1
	grep -q '1 answered' "$dir/ping" || fail "$name: no answer to a ping"
	cat "$dir/ping" "$server_log" >"$dir/said"
	for text; do
		grep -qF "made up: $text" "$dir/said" || fail "$name: nothing says \"$text\""
	done
	server_stop
	ok "$name"
}

(later_build) >"$dir/build.log" 2>&1 ||
	fail "the later version does not build: $(tail -n 5 "$dir/build.log")"
make_file "$dir/in" 3000000
this_rmem=$RMEM

RMEM=$later/build/src/rmem/rmem
talk "a later client" "welcome 0, capabilities 0x0, request -95"
RMEM=$this_rmem RMEMD=$later/build/src/rmemd/rmemd
talk "a later daemon" "hello 0, capabilities 0x0"
RMEM=$later/build/src/rmem/rmem
talk "both" "hello 55, capabilities 0x40" "request text" \
	"welcome 66, capabilities 0x40, request 0" "event 77"
