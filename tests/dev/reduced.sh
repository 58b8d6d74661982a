#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Build what leaves parts out, without what these need, and test it.
#
# usage: ./dev reduced
#
# Three builds in build/reduced: without the daemon and with a library that loads those of RDMA,
# without RDMA, and without both.  pkg-config knows only what each may need; no compiler has read a
# header of the rest, and no program or library is linked with it.  Clients of the first and of the
# last build work together with a daemon of the second one.
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/lib/steps.sh"
# shellcheck source=tests/dev/lib/build.sh
. "$(dirname "$0")/lib/build.sh"

REDUCED=$BUILD/reduced

# patterns of headers and libraries
daemon_parts='/include/(.*/)?(event2/|systemd/|curl/|numa\.h|ini\.h)'
daemon_parts+='|\[lib(event|numa|systemd|inih|curl)'
rdma_libraries='\[lib(ibverbs|rdmacm)'
rdma_parts='/include/(.*/)?(infiniband|rdma|libmnl)/|\[lib(ibverbs|rdmacm|mnl)'

# modules_link FOLDER MODULE...: the files of pkg-config for these modules and what they need
modules_link()
{
	local folder=$1 module

	for module in "${@:2}"; do
		[ ! -e "$folder/$module.pc" ] || continue
		ln -s "$(pkg-config --variable=pcfiledir "$module")/$module.pc" "$folder/"
		# shellcheck disable=SC2046 # names without blanks
		modules_link "$folder" $(
			pkg-config --print-requires --print-requires-private "$module" |
				awk '{ print $1 }')
	done
}

# reduced_build NAME MODULES OPTION...: with these options of configure
reduced_build()
{
	local folder=$REDUCED/$1

	mkdir -p "$folder/modules"
	# shellcheck disable=SC2086 # several modules
	modules_link "$folder/modules" $2
	env -C "$folder" PKG_CONFIG_LIBDIR="$folder/modules" "$TOP/configure" "${@:3}" CFLAGS=-O0 &&
		make -C "$folder" -j"$JOBS"
}

# reduced_lacks NAME PATTERN: no object was made of a header, and no file is linked with a library,
# of the parts that are left out
reduced_lacks()
{
	local files

	mapfile -t files < <(find "$REDUCED/$1" -name '*.Po' -o -name '*.Plo')
	cat "${files[@]}" >"$REDUCED/$1.used"
	grep -q /openssl/ "$REDUCED/$1.used" ||
		{ echo "no object was made of OpenSSL's headers"; return 1; }
	mapfile -t files < <(find "$REDUCED/$1" -type f -perm -u+x \
		! -name '*.la' ! -name 'config.*' ! -name libtool)
	readelf -d "${files[@]}" 2>/dev/null | grep NEEDED >>"$REDUCED/$1.used"
	grep -q '\[libcrypto' "$REDUCED/$1.used" ||
		{ echo "nothing is linked with OpenSSL"; return 1; }
	! grep -E "$2" "$REDUCED/$1.used"
}

# shellcheck disable=SC2016 # variables of make
reduced_check()
{
	make -C "$REDUCED/$1" -j"$JOBS" check TESTS='$(UNIT_TESTS) tests/conformance/library.sh'
}

# reduced_together NAME TEST...: a client of this build, and a daemon without RDMA
reduced_together()
{
	local client=$REDUCED/$1 test

	export top_srcdir=$TOP top_builddir=$REDUCED/tcp
	export RMEM=$client/src/rmem/.libs/rmem LD_LIBRARY_PATH=$client/.libs
	for test in "${@:2}"; do
		bash "$TOP/tests/integration/$test.sh" || return
	done
}

! help_wanted "$@" || exit 0
arguments_max 0 "$@"
tree_check
setup build test
[ -x "$TOP/configure" ] || step autoreconf autoreconf -fi "$TOP"
rm -rf "$REDUCED"
all='openssl jansson libxxhash check'
rdma='libibverbs librdmacm libmnl'
daemon='libevent libevent_pthreads numa libsystemd inih libcurl'
step client reduced_build client "$all $rdma" --disable-daemon --with-rdma=dlopen
step client-lacks reduced_lacks client "$daemon_parts|$rdma_libraries"
step tcp reduced_build tcp "$all $daemon" --with-rdma=no
step tcp-lacks reduced_lacks tcp "$rdma_parts"
step tcp-client reduced_build tcp-client "$all" --disable-daemon --with-rdma=no
step tcp-client-check reduced_check tcp-client
step tcp-client-lacks reduced_lacks tcp-client "$daemon_parts|$rdma_parts"
step together reduced_together tcp-client no-rdma put-get
step loaded reduced_together client no-library
