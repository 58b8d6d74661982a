# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Packages of Debian, and building.

# packages_of KIND...: the packages of these kinds
packages_of()
{
	local kind
	for kind in "$@"; do
		if [ "$kind" = rig ]; then
			cat "$TOP/tests/rig/packages"
		else
			sed -n "s/^$kind //p" "$TOP/tests/dev/packages"
		fi
	done | tr ' ' '\n'
}

packages_missing()
{
	local package
	sort -u | while read -r package; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = \
			installed ] || echo "$package"
	done
}

packages_install()
{
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update &&
		as_root env DEBIAN_FRONTEND=noninteractive \
			apt-get -q install -y --no-install-recommends "$@"
}

# packages_need PACKAGE...: those that are missing
packages_need()
{
	local missing

	command -v dpkg-query >/dev/null ||
		die setup "this is not Debian: install what configure asks for"
	mapfile -t missing < <(printf '%s\n' "$@" | packages_missing)
	if [ ${#missing[@]} -eq 0 ]; then
		say setup "all packages are installed"
		return
	fi
	say setup "installing ${missing[*]}"
	step setup packages_install "${missing[@]}"
}

# setup KIND...: install the packages of these kinds
setup()
{
	local packages

	mapfile -t packages < <(packages_of "$@")
	packages_need "${packages[@]}"
}

# configure refuses to build in another directory when the source tree itself is configured.
tree_check()
{
	[ ! -e "$TOP/config.status" ] ||
		die configure \
			"the source tree itself is configured: first run \`make distclean\` there"
}

# configured OPTION...: configure in $BUILD, if that was not done
configured()
{
	[ -x "$TOP/configure" ] || step autoreconf autoreconf -fi "$TOP"
	mkdir -p "$BUILD"
	[ -f "$BUILD/config.status" ] || step configure env -C "$BUILD" ../configure "$@"
}

# build FOLDER [OPTION OF CONFIGURE...]
build()
{
	BUILD=$TOP/$1
	configured --prefix=/usr --sysconfdir=/etc --localstatedir=/var --runstatedir=/run \
		--with-python PYTHON=/usr/bin/python3 "${@:2}"
	step make make -C "$BUILD" -j"$JOBS"
}
