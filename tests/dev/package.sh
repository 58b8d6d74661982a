#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Build the Debian packages in build/package.
#
# usage: ./dev package [--twice]
#
# Builds the packages of the archive that `make dist` packs, with dpkg-buildpackage and without its
# unit tests, and examines them with lintian.
#
#   --twice    build them again in another directory, time zone and language, and compare the
#              packages byte by byte
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/lib/steps.sh"
# shellcheck source=tests/dev/lib/build.sh
. "$(dirname "$0")/lib/build.sh"

# package_build FOLDER: build the packages in FOLDER, which is removed first
package_build()
{
	local folder=$1 archive version

	rm -rf "$folder"
	mkdir -p "$folder"
	archive=$(find "$BUILD" -maxdepth 1 -name 'rmem-*.tar.xz')
	version=$(basename "$archive" .tar.xz) &&
		cp "$archive" "$folder/${version/-/_}.orig.tar.xz" &&
		tar -C "$folder" -xf "$archive" &&
		cp -r "$TOP/debian" "$folder/$version" &&
		cd "$folder/$version" &&
		DEB_BUILD_OPTIONS="nocheck parallel=$JOBS" dpkg-buildpackage -us -uc &&
		cd "$TOP" && rm -r "${folder:?}/$version"
}

# The archive has the same bytes each time: the date of all files is that of the newest package.
package_archive()
{
	local date

	rm -f "$BUILD"/rmem-*.tar.xz
	date=$(dpkg-parsechangelog -l "$TOP/debian/changelog" -S Timestamp) &&
		TAR_OPTIONS="--sort=name --mtime=@$date --owner=0 --group=0 --numeric-owner" \
			make -C "$BUILD" dist
}

# Nothing that depends on the place and the user is in a package.
package_build_again()
(
	umask 077
	export TZ=Pacific/Chatham LC_ALL=C.UTF-8 HOME=/nonexistent
	package_build "$BUILD/package-again/another-directory"
)

# package_compare: the packages of both builds have the same bytes
package_compare()
{
	local package count=0 bad=0

	for package in "$BUILD"/package/*.deb; do
		count=$((count + 1))
		cmp "$package" "$BUILD/package-again/another-directory/${package##*/}" || bad=1
	done
	echo "$count packages compared"
	[ "$bad" -eq 0 ] && [ "$count" -gt 0 ]
}

package_lint()
{
	lintian --allow-root --fail-on error,warning "$BUILD"/package/*.changes
}

! help_wanted "$@" || exit 0
twice=${1-}
[ "${twice:---twice}" = --twice ] || die package "takes no argument '$1'; see ./dev package --help"
arguments_max 1 "$@"
tree_check
setup build test
build build
step archive package_archive
step packages package_build "$BUILD/package"
step lintian package_lint
[ -z "$twice" ] || {
	step again package_build_again
	step compare package_compare
}
say package "$(cd "$BUILD/package" && echo *.deb)"
