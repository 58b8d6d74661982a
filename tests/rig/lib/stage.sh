# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# For the test programs of the rig: a private directory that both host and guests see, and
# what was built, installed into it.  Sourced with `top_srcdir` and `top_builddir` set;
# gives $WORK, $RIG and stage().
: "${top_srcdir:?}" "${top_builddir:?}"
# shellcheck disable=SC2034 # for the tests
RIG=$top_srcdir/tests/rig/rig
WORK=$(mktemp -d "${TMPDIR:-/tmp}/rmem-rigtest.XXXXXX")
trap 'rm -rf "$WORK"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 755 "$WORK"

# Install what was built into $WORK/root, for `guest_install` to lay over the guest's /.
stage()
{
	make -C "$top_builddir" install DESTDIR="$WORK/root" >"$WORK/install.log" 2>&1 || {
		cat "$WORK/install.log"
		echo "make install failed"
		exit 1
	}
	cat >"$WORK/guest.sh" <<-GUEST
	WORK=$WORK
	BUILD=$top_builddir
	. $top_srcdir/tests/rig/guest/functions
	GUEST
}

# The kernels and devices to run on: "612:rxe 61:rxe 612:siw", or what RMEM_RIG_LEGS says.
legs()
{
	echo "${RMEM_RIG_LEGS:-$*}"
}
