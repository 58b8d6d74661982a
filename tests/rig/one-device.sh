#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# One machine with one device, soft-RoCE or iWARP: `rmemctl devices`, the conformance suite, and
# tests for one kind of device.
#   RMEM_RIG_PARTS  which of: awaited channel-tls devices conformance direct direct-refused dmabuf
#                   loaded pools ports regions
#   RMEM_RIG_LEGS   on which kernel:device pairs
#   RMEM_PERCENT    share of the repetitions in conformance, default 10
# cores: 1  seconds: 200
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
export RMEM_PERCENT=${RMEM_PERCENT:-10}
export RMEM_SOAK_SECONDS=${RMEM_SOAK_SECONDS:-3} RMEM_DEATHS=${RMEM_DEATHS:-10}
stage

for leg in $(legs 612:rxe 61:rxe 612:siw); do
	case $leg in
	*:siw) parts=(devices conformance direct-refused ports) ;;
	61:*) parts=(conformance) ;;
	*) parts=(devices awaited conformance direct dmabuf channel-tls loaded pools regions) ;;
	esac
	parts_run "$leg" run --timeout "${RMEM_RIG_SECONDS:-900}" -- "${parts[@]}"
done
