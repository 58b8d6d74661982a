# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# iWARP: Debian's kernels do not include siw, so it is built from their source package and their
# header packages, which are unpacked, but not installed.

# siw_headers DIR PACKAGE VERSION: unpack the headers and the two packages that they depend on,
# whose names have only the kernel's series.
siw_headers()
{
	local packages deb
	mapfile -t packages < <(apt-cache -c "$APT/apt.conf" show "$2=$3" |
		sed -n 's/^Depends: //p' | grep -oE 'linux-(headers|kbuild)-[^ ,]+' | sort -u)
	apt_download "$1" "$2=$3" "${packages[@]/%/=$3}"
	for deb in "$1"/*.deb; do
		dpkg-deb -x "$deb" "$1/root"
		rm "$deb"
	done
}

# siw_source DIR SERIES VERSION: unpack the driver's files into DIR/siw
siw_source()
{
	apt_download "$1" "linux-source-$2=$3"
	mkdir "$1/siw"
	say "unpacking siw from linux-source-$2"
	dpkg-deb --fsys-tarfile "$1"/linux-source-*.deb |
		tar -xOf - "./usr/src/linux-source-$2.tar.xz" |
		xz -dc |
		tar -xf - -C "$1/siw" --strip-components=5 \
			"linux-source-$2/drivers/infiniband/sw/siw"
	rm "$1"/*.deb
}

siw_build()
{
	local series version tmp headers
	series=$(kernel_series "$1")
	version=$(cat "$KERNEL_DIR/debversion")
	need make make gcc gcc
	apt_update
	# Not in the cache: its path may contain blanks, which kbuild does not support.
	tmp=$SCRATCH/siw
	mkdir "$tmp"
	siw_headers "$tmp" "linux-headers-$KERNEL_RELEASE" "$version"
	siw_source "$tmp" "$series" "$version"

	# The headers refer to their installed paths.
	headers=$tmp/root/usr/src/linux-headers-$KERNEL_RELEASE
	sed -i "s#/usr/\(src\|lib\)/linux-#$tmp/root&#" "$headers/Makefile"
	say "building siw for $KERNEL_RELEASE"
	# No BTF: that would need pahole and the whole kernel's debug information.  A later release
	# has another compiler than the headers name.
	make -C "$headers" M="$tmp/siw" CC=gcc CONFIG_RDMA_SIW=m CONFIG_DEBUG_INFO_BTF_MODULES= \
		modules >"$tmp/log" 2>&1 || {
		tail -n 20 "$tmp/log" >&2
		unavailable "siw does not build for $KERNEL_RELEASE"
	}
	install -D -m 644 "$tmp/siw/siw.ko" \
		"$KERNEL_DIR/lib/modules/$KERNEL_RELEASE/updates/siw.ko"
	depmod -b "$KERNEL_DIR" "$KERNEL_RELEASE"
	rm -r "$tmp"
}

# siw_prepare NAME: add siw to the kernel of kernel_prepare unless it has it.  Uses $SCRATCH.
siw_prepare()
{
	local lock
	exec {lock}>"$RIG_CACHE/lock"
	flock "$lock"
	[ -s "$KERNEL_DIR/lib/modules/$KERNEL_RELEASE/updates/siw.ko" ] || siw_build "$1"
	exec {lock}>&-
}

siw_main()
{
	[ $# -le 1 ] || usage_error "siw: one kernel at a time"
	kernel_prepare "${1-612}"
	scratch_open
	siw_prepare "${1-612}"
}
