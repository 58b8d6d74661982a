#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Broken hosts, and what rmemctl doctor and rmem doctor say of them.
#   RMEM_RIG_PARTS  which of: doctor-host doctor-pools doctor-iwarp doctor-none doctor-unit
# cores: 1  seconds: 240
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

# a network card on the second NUMA node, with a soft-RoCE device
card='-device pxb-pcie,id=pxb,bus=pcie.0,bus_nr=32,numa_node=1
	-device pcie-root-port,id=far-port,bus=pxb,chassis=9
	-netdev hubport,hubid=1,id=far -device virtio-net-pci,bus=far-port,netdev=far'

parts_run 612:rxe run --timeout 1800 -- doctor-host
parts_run 612:rxe run --numa 2 --node-memory 1536,1536 --append "hugepagesz=2M hugepages=0:64,1:0" \
	--qemu "-M q35 ${card//$'\n\t'/ }" --timeout 600 -- doctor-pools
parts_run 612:siw run --timeout 600 -- doctor-iwarp
parts_run 612:none run --timeout 600 -- doctor-none
parts_run 612:rxe run --systemd --timeout 600 -- doctor-unit
