# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# tests/fault/faults.sh with every fault, also those that change the RDMA device.
#   RMEM_ROUNDS  of each fault, default 2
#   RMEM_FAULTS  which faults, default all
: "${top_srcdir:?}"
export FAULTS="${RMEM_FAULTS:-refused flushed control server port device removal address}"
bash "$top_srcdir/tests/fault/faults.sh" || fail "faults: status $?"
