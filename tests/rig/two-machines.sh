#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two machines with a cable: rmemd in the first, its clients in the second.
#   RMEM_RIG_PARTS  which of: transfer blackhole forgotten loss silence knobs
#   RMEM_RIG_LEGS   on which kernel:device pairs
#   RMEM_MIB        size of the file of transfer, default 64
#   RMEM_ROUNDS     of each black hole, default 1
#   RMEM_SILENCES   rounds of each way to fall silent, default 1
#   RMEM_LOSS_SECONDS  of each rate of loss, default 3
#   RMEM_ADDS       atomics of loss, default 1000
# cores: 1  seconds: 200
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
export RMEM_MIB=${RMEM_MIB:-64} RMEM_ROUNDS=${RMEM_ROUNDS:-1}
stage
mkdir "$WORK/share"

# real data: an archive of this machine's libraries
tar -C / -cf - usr/lib 2>/dev/null | head -c $((RMEM_MIB << 20)) >"$WORK/share/file"
[ "$(stat -c %s "$WORK/share/file")" -eq $((RMEM_MIB << 20)) ] || {
	echo "/usr/lib has less than $RMEM_MIB MiB"
	exit 1
}
sha256sum <"$WORK/share/file" | cut -d' ' -f1 >"$WORK/share/sum"

# keys_make LEG: a new pre-shared key for both machines, in /share/keys; none on 6.1
keys_make()
{
	rm -rf "$WORK/share/keys"
	[[ $1 != 61:* ]] || return 0
	mkdir "$WORK/share/keys"
	"$top_builddir/src/rmemctl/rmemctl" keygen default "$WORK/share/keys" || exit 1
}

for leg in $(legs 612:rxe 612:siw); do
	case $leg in
	*:siw)
		parts=(transfer forgotten)
		# on iWARP only when asked for: they take long
		[ -z "${RMEM_RIG_PARTS-}" ] || parts+=(loss silence)
		;;
	61:*) parts=(transfer knobs) ;;
	*) parts=(transfer blackhole forgotten loss silence knobs) ;;
	esac
	keys_make "$leg"
	parts_run "$leg" pair --share "$WORK/share" --a-systemd --memory 1536 --b-lives 100 \
		--timeout "${RMEM_RIG_SECONDS:-1200}" -- "${parts[@]}"
done
