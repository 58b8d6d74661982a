#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Store a file in a server on loopback, read it back, compare.
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/lib/steps.sh"
# shellcheck source=tests/dev/lib/build.sh
. "$(dirname "$0")/lib/build.sh"
# shellcheck source=tests/dev/lib/server.sh
. "$(dirname "$0")/lib/server.sh"

# show CMD...: print a command without the paths of the build, and its output, both indented
show()
{
	local words=${*//$BUILD\/src\/rmem*\//}
	echo
	echo "    \$ ${words//$WORK/DIR}"
	"$@" 2>&1 | sed 's/^/    /' || die demo "FAILED: that command ended in an error"
}

# file_make FILE MIB: make a tar of /usr, of at most this size
file_make()
{
	local names=(/usr/lib)

	# tar gets SIGPIPE when head has enough, which is no failure
	{ tar -C / -cf - "${names[@]#/}" /usr/share /usr/bin 2>/dev/null || true; } |
		head -c "${2}M" >"$1"
}

# seconds_since START: seconds since a value of $EPOCHREALTIME, with two digits
seconds_since()
{
	awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.2f", to - from }'
}

! help_wanted "$@" || exit 0
arguments_max 0 "$@"
tree_check
setup build
build build
pool=$(pool_mib)
file_mib=$((pool - 64 < 400 ? pool - 64 : 400))
[ "$file_mib" -ge 256 ] ||
	die demo "needs 640 MiB of free memory, but only $((2 * pool)) MiB are free"
work_begin

server_start "$pool"
say demo "rmemd is running on loopback and lends $pool MiB of this host's memory:"
show "$BUILD/src/rmemctl/rmemctl" --socket "$ADMIN" pools
echo

file=$WORK/file.tar
file_make "$file" "$file_mib"
sum=$(sha256sum <"$file")
mib=$(($(stat -c %s "$file") >> 20))
say demo "a real file: a tar of /usr/lib, $mib MiB, SHA-256 ${sum:0:16}..."

start=$EPOCHREALTIME
show "$BUILD/src/rmem/rmem" --server "$SERVER" --verbose put file.tar "$file"
echo
say demo "stored in remote memory in $(seconds_since "$start") s; the file on disk is removed"
rm "$file"
show "$BUILD/src/rmem/rmem" --server "$SERVER" ls -l
show "$BUILD/src/rmemctl/rmemctl" --socket "$ADMIN" status
show "$BUILD/src/rmemctl/rmemctl" --socket "$ADMIN" leases
echo

start=$EPOCHREALTIME
back=$("$BUILD/src/rmem/rmem" --server "$SERVER" get file.tar - | sha256sum)
say demo "a second process read it back in $(seconds_since "$start") s, SHA-256 ${back:0:16}..."
[ "$sum" = "$back" ] || die demo "FAILED: the bytes that were read are not those that were stored"
show "$BUILD/src/rmem/rmem" --server "$SERVER" rm file.tar
echo

server_stop || die demo "FAILED: rmemd ended with status $?, see build/rmemd.log"
say demo "rmemd has freed the memory and ended without an error."
say demo "PASSED: the bytes that were read are those that were stored."
