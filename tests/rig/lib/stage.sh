# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the tests of the rig, with `top_srcdir` and `top_builddir` set.  Makes $WORK, a private
# directory that host and guests see, and has functions that run the parts of a test in a machine.
: "${top_srcdir:?}" "${top_builddir:?}"
RIG=$top_srcdir/tests/rig/rig
WORK=$(mktemp -d "${TMPDIR:-/tmp}/rmem-rigtest.XXXXXX")
trap 'rm -rf "$WORK"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
chmod 755 "$WORK"

# Install the build in $WORK/root, which `guest_install` copies to the guest's /, and write
# $WORK/guest.sh, which passes the variables RMEM_* to the guest.  `./dev check` installs once for
# all tests, in $RMEM_RIG_ROOT.  RMEM_SEED is random unless it is set.
stage()
{
	local name
	if [ -n "${RMEM_RIG_ROOT:-}" ]; then
		ln -s "$RMEM_RIG_ROOT" "$WORK/root"
	else
		# under a lock: libtool links programs again in the build tree
		flock "$top_builddir" make -C "$top_builddir" install DESTDIR="$WORK/root" \
			>"$WORK/install.log" 2>&1 || {
			cat "$WORK/install.log"
			echo "make install failed"
			exit 1
		}
		# without it tests would be skipped
		[ -x "$WORK/root/usr/bin/rmem" ] || {
			echo "no /usr/bin/rmem is installed: configure with --prefix=/usr"
			exit 1
		}
	fi
	export RMEM_SEED=${RMEM_SEED:-$((RANDOM * 32768 + RANDOM))} \
		RMEM_PATIENCE=${RMEM_PATIENCE:-4}
	echo "RMEM_SEED=$RMEM_SEED"
	{
		echo "WORK=$WORK BUILD=$top_builddir"
		echo "export FABRIC=rdma LISTEN=\$RIG_ADDR RMEM=/usr/bin/rmem"
		for name in top_srcdir top_builddir $(compgen -e RMEM_); do
			printf 'export %s=%q\n' "$name" "${!name}"
		done
		echo ". $top_srcdir/tests/rig/guest/functions"
	} >"$WORK/guest.sh"
}

# legs LEG...: the kernels and devices to run on: RMEM_RIG_LEGS, or else the arguments
legs()
{
	echo "${RMEM_RIG_LEGS:-$*}"
}

# parts PART...: the arguments that RMEM_RIG_PARTS names, all if it is not set
parts()
{
	local part
	for part; do
		[[ " ${RMEM_RIG_PARTS:-$*} " != *" $part "* ]] || echo "$part"
	done
}

# machine LEG run|pair ARGUMENT...: `rig run` or `rig pair` with this kernel and device, once more
# if its kernel fails (126); a failure ends the test
machine()
{
	local leg=$1 status=0 words
	echo "== kernel ${leg%:*}, ${leg#*:}"
	words=("$RIG" "$2" --kernel "${leg%:*}" --device "${leg#*:}" "${@:3}")
	"${words[@]}" || status=$?
	[ "$status" -ne 126 ] || {
		echo "== the kernel failed: once more"
		status=0
		"${words[@]}" || status=$?
	}
	[ "$status" -eq 0 ] || {
		echo "FAILED on $leg: $status"
		exit 1
	}
}

# parts_run LEG run|pair OPTION... -- PART...: run these parts in a machine; in a pair the first
# machine runs PART-server of each, the second one PART-client
parts_run()
{
	local leg=$1 command=$2 options=() parts run
	shift 2
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	mapfile -t parts < <(parts "$@")
	[ ${#parts[@]} -gt 0 ] || return 0
	run="bash $top_srcdir/tests/rig/guest/parts $WORK"
	if [ "$command" = run ]; then
		machine "$leg" run "${options[@]}" "$run ${parts[*]}"
	else
		machine "$leg" pair "${options[@]}" "$run ${parts[*]/%/-server}" \
			"$run ${parts[*]/%/-client}"
	fi
}
