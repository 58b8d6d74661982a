#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two machines, one after the other: one with pages of 2 MiB and 1 GiB on two NUMA nodes, where
# control groups have limits too, and one with a node without memory.
#   RMEM_RIG_PARTS  which of: numa cgroup node-without-memory
# cores: 1  seconds: 120
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

parts_run 612:rxe run --numa 2 --node-memory 3072,3072 --hugepages-2m 200 --hugepages-1g 1 \
	--timeout 900 -- numa cgroup
parts_run 612:rxe run --numa 2 --node-memory 2048,0 --append "hugepagesz=2M hugepages=0:64" \
	--timeout 600 -- node-without-memory
