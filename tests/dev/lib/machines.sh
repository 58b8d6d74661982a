# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Whether virtual machines boot.  Installs the build for all tests of the rig.
rig_ready()
{
	"$TOP/tests/rig/rig" run --device none true >"$BUILD/rig.log" 2>&1 </dev/null || {
		say rig "no virtual machine boots here, see build/rig.log"
		return 1
	}
	export RMEM_RIG_ROOT=$BUILD/rig-root
	rm -rf "$RMEM_RIG_ROOT"
	step install make -C "$BUILD" install DESTDIR="$RMEM_RIG_ROOT"
}
