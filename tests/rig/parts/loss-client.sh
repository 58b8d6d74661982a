# shellcheck shell=bash disable=SC2015
# SPDX-License-Identifier: BSD-3-Clause
# Of the RDMA packets that arrive at either machine, 5 % are lost.  When an answer is lost, soft-RoCE
# completes some atomics without it.  The program must be told that their outcome is unknown, and no
# add may return a wrong number.
rig-await serving
coproc COUNTED { "$BUILD/tests/rig/counted" "rmem://10.8.0.1?fabric=rdma" "${RMEM_ADDS:-3000}"; }
read -r line <&"${COUNTED[0]}" && [ "$line" = ready ] || fail "counted: $line"
rig-mark connected
rig-await loss
loss_begin
# shellcheck disable=SC2153 # of the coprocess
counted_pid=$COUNTED_PID
echo >&"${COUNTED[1]}"
cat <&"${COUNTED[0]}"
wait "$counted_pid" || fail "counted: status $?"
loss_end
rig-mark counted
