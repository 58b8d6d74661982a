#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Build a wheel of the Python package in build/wheel, and test it.
#
# usage: ./dev wheel [PYTHON...]
#
#   PYTHON   test it with this Python too, 3.11 or later, as with that of the system
#
# One wheel serves Python 3.11 and later.  It needs the C library alone, as old as its name tells:
# librmem, the cache and OpenSSL are in it, so a fix of OpenSSL needs a new wheel.  The libraries of
# RDMA are loaded from the host if it has them.  It is tested in new virtual environments.
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/lib/steps.sh"
# shellcheck source=tests/dev/lib/build.sh
. "$(dirname "$0")/lib/build.sh"

WHEEL=$BUILD/wheel

# Each library becomes one object, where what is hidden is its own: the extension has functions of
# the same names.
wheel_libraries()
{
	local name

	mkdir "$WHEEL/libraries"
	env -C "$WHEEL/libraries" "$TOP/configure" --disable-daemon --with-rdma=dlopen \
		--enable-static --disable-shared --with-pic &&
		make -C "$WHEEL/libraries" -j"$JOBS" librmem.la librmem-cache.la || return
	for name in librmem librmem-cache; do
		gcc -r -nostdlib -o "$WHEEL/$name.o" -Wl,--whole-archive \
			"$WHEEL/libraries/.libs/$name.a" &&
			objcopy --localize-hidden "$WHEEL/$name.o" &&
			ar rc "$WHEEL/$name.a" "$WHEEL/$name.o" || return
	done
}

# wheel_python COMMAND...: of setup.py
wheel_python()
{
	local libraries="$WHEEL/librmem-cache.a $WHEEL/librmem.a" name

	for name in ssl crypto xxhash; do
		libraries+=" $(gcc -print-file-name=lib$name.a)"
	done
	env -C "$TOP/src/python" RMEM_LIBRARIES="$libraries" /usr/bin/python3 setup.py \
		egg_info --egg-base "$WHEEL" \
		build --build-base "$WHEEL/objects" --build-lib "$WHEEL/package" "$@"
}

# The name of a wheel tells the oldest C library that has all symbols.
wheel_pack()
{
	local minor

	minor=$(readelf -W --dyn-syms "$WHEEL/package/rmem/_rmem.abi3.so" |
		sed -nE 's/.*@GLIBC_2\.([0-9]+).*/\1/p' | sort -n | tail -n 1)
	wheel_python bdist_wheel --bdist-dir "$WHEEL/content" --dist-dir "$WHEEL" \
		--plat-name "manylinux_2_${minor}_$(uname -m)"
}

# wheel_test PYTHON: in a new virtual environment, which has only the wheel
wheel_test()
{
	local environment=$WHEEL/environment

	rm -rf "$environment"
	"$1" -m venv "$environment" &&
		"$environment/bin/pip" install --no-index "$WHEEL"/rmem-*.whl &&
		top_srcdir=$TOP top_builddir=$BUILD RMEM_PYTHON=$environment/bin/python \
			bash "$TOP/tests/python/wheel.sh"
}

! help_wanted "$@" || exit 0
tree_check
setup build test
build build
rm -rf "$WHEEL"
mkdir "$WHEEL"
step libraries wheel_libraries
step extension wheel_python
step wheel wheel_pack
for python in /usr/bin/python3 "$@"; do
	step "test-$("$python" -c 'import platform; print(platform.python_version())')" \
		wheel_test "$python"
done
say wheel "$(cd "$WHEEL" && echo rmem-*.whl)"
