# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Debian kernels, unpacked into the cache, never installed.
#
#   $RIG_CACHE/kernels/NAME -> RELEASE      the one in use for 612 or 61
#   $RIG_CACHE/kernels/RELEASE/             vmlinux, lib/modules/RELEASE, debversion
#   $RIG_CACHE/kernels/RELEASE/initrd-SUM   initramfs; SUM is that of its source files

RIG_CACHE=${RMEM_RIG_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rmem-rig}

# kernel_series NAME: 612 is 6.12, 61 is 6.1.
kernel_series()
{
	case $1 in
	612) echo 6.12 ;;
	61) echo 6.1 ;;
	*) usage_error "unknown kernel '$1': known are 612 and 61" ;;
	esac
}

# kernel_suites NAME: the suites of a kernel, as a regex.  6.12 comes from backports only, which get
# security updates: the security suite has 6.12 with other versions and at other times.
kernel_suites()
{
	case $1 in
	612) echo "$APT_RELEASE-backports" ;;
	61) echo "$APT_RELEASE|$APT_RELEASE-security" ;;
	esac
}

# kernel_elf IMAGE ELF: unpack the kernel.  Qemu enters an ELF kernel directly (PVH), so the
# emulated CPU does not unpack it at every boot.  The offsets are those of the x86 boot protocol:
# setup_sects, payload_offset, payload_length.  The last four bytes of the payload are its length
# and not part of the compressed stream.
kernel_elf()
{
	local image=$1 elf=$2 sects offset length magic
	sects=$(od -An -tu1 -j $((0x1f1)) -N1 "$image")
	offset=$(od -An -tu4 -j $((0x248)) -N4 "$image")
	length=$(od -An -tu4 -j $((0x24c)) -N4 "$image")
	offset=$((offset + (sects + 1) * 512))
	magic=$(od -An -tx4 -j $offset -N4 "$image")
	local unpack
	case $magic in
	*587a37fd) unpack=xz ;;
	*fd2fb528) unpack=zstd ;;
	*) unavailable "unknown compression of $image" ;;
	esac
	dd if="$image" bs=64K iflag=skip_bytes,count_bytes skip=$offset \
		count=$((length - 4)) status=none | $unpack -dc >"$elf"
}

# kernel_modules DIR RELEASE MODULE...: their files in the order to load them.
kernel_modules()
{
	local dir=$1 release=$2 module
	shift 2
	for module; do
		modprobe -d "$dir" -S "$release" --show-depends "$module"
	done | sed -n 's/^insmod \(.*\.ko[.a-z]*\).*/\1/p' | awk '!seen[$0]++'
}

# kernel_initrd DIR RELEASE: make the initramfs: busybox, the modules that mount the host's root,
# and guest/init; sets KERNEL_INITRD.
kernel_initrd()
{
	local dir=$1 release=$2 sum busybox tmp f n=100
	busybox=$(command -v busybox)
	sum=$(cat "$busybox" "$RIG_DIR/guest/init" | cksum | cut -d' ' -f1)
	KERNEL_INITRD=$dir/initrd-$sum
	[ ! -s "$KERNEL_INITRD" ] || return 0
	tmp=$(mktemp -d "$dir/initrd.XXXXXX")
	mkdir "$tmp"/{bin,ko,proc,sys,dev,x,lower,rw,root}
	cp "$busybox" "$tmp/bin/busybox"
	install -m 755 "$RIG_DIR/guest/init" "$tmp/init"
	kernel_modules "$dir" "$release" virtio_pci 9pnet_virtio 9p overlay \
		virtio_console virtio_rng >"$tmp.order"
	while IFS= read -r f; do
		n=$((n + 1))
		case $f in
		*.xz) xz -dc "$f" >"$tmp/ko/$n.ko" ;;
		*.zst) zstd -qdc "$f" >"$tmp/ko/$n.ko" ;;
		*) cp "$f" "$tmp/ko/$n.ko" ;;
		esac
	done <"$tmp.order"
	(cd "$tmp" && find . | cpio -o -H newc --quiet | gzip -1) >"$tmp.gz"
	rm -rf "$tmp" "$tmp.order"
	mv "$tmp.gz" "$KERNEL_INITRD"
}

# kernel_unpack PACKAGE RELEASE: download a kernel and unpack it into the cache, atomically
kernel_unpack()
(
	# This process has the lock, so these directories are left from a rig that was killed.
	rm -rf "$RIG_CACHE"/kernels/new.*
	tmp=$(mktemp -d "$RIG_CACHE/kernels/new.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	trap 'exit 143' HUP INT TERM
	apt_download "$tmp" "$1"
	say "unpacking $1"
	mkdir "$tmp/deb"
	dpkg-deb -x "$tmp"/*.deb "$tmp/deb"
	mkdir -p "$tmp/kernel/lib"
	dpkg-deb -f "$tmp"/*.deb Version >"$tmp/kernel/debversion"
	mv "$tmp/deb/lib/modules" "$tmp/kernel/lib/"
	depmod -b "$tmp/kernel" "$2"
	kernel_elf "$tmp/deb/boot/vmlinuz-$2" "$tmp/kernel/vmlinux"
	mv "$tmp/kernel" "$RIG_CACHE/kernels/$2"
)

# kernel_fetch NAME: put the newest kernel of a series into the cache, and use it from now on.
kernel_fetch()
{
	local name=$1 series package release
	series=$(kernel_series "$name")
	apt_update
	package=$(apt_newest "linux-image-${series/./\\.}\.[0-9][0-9.+a-z]*(-[0-9]+)?-amd64" \
		"$(kernel_suites "$name")") || true
	[ -n "$package" ] ||
		unavailable "no Linux $series in $(kernel_suites "$name")"
	release=${package#linux-image-}
	[ -d "$RIG_CACHE/kernels/$release" ] || kernel_unpack "$package" "$release"
	ln -sfn "$release" "$RIG_CACHE/kernels/$name"
}

# kernel_prepare NAME: sets KERNEL_DIR, KERNEL_RELEASE and KERNEL_INITRD.  Takes a lock, because
# several rigs may start with an empty cache.
kernel_prepare()
{
	local name=$1 lock
	kernel_series "$name" >/dev/null
	[ "$(uname -m)" = x86_64 ] || unavailable "the rig needs an amd64 machine"
	need qemu-system-x86_64 qemu-system-x86 busybox busybox-static cpio cpio \
		depmod kmod xz xz-utils zstd zstd setpriv util-linux ip iproute2
	! ldd "$(command -v busybox)" >/dev/null 2>&1 ||
		unavailable "busybox is not static: install Debian package busybox-static"
	mkdir -p "$RIG_CACHE/kernels" ||
		unavailable "no cache directory $RIG_CACHE: set RMEM_RIG_CACHE"
	exec {lock}>"$RIG_CACHE/lock"
	flock -n "$lock" || {
		say "waiting for another rig that prepares a kernel"
		flock "$lock"
	}
	if [ -n "${KERNEL_UPDATE-}" ] || [ ! -s "$RIG_CACHE/kernels/$name/vmlinux" ]; then
		kernel_fetch "$name"
	fi
	KERNEL_DIR=$(readlink -f "$RIG_CACHE/kernels/$name")
	KERNEL_RELEASE=${KERNEL_DIR##*/}
	kernel_initrd "$KERNEL_DIR" "$KERNEL_RELEASE"
	exec {lock}>&-
}

kernel_main()
{
	if [ "${1-}" = --update ]; then
		KERNEL_UPDATE=1
		shift
	fi
	[ $# -le 1 ] || usage_error "kernel: one kernel at a time"
	kernel_prepare "${1-612}"
	echo "$KERNEL_RELEASE"
}
