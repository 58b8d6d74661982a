# shellcheck shell=bash disable=SC2015
# SPDX-License-Identifier: BSD-3-Clause
# Of the packets that arrive at either machine, 1 % or 5 % are lost, those of the control connection
# too.
#
# - A client reads and writes its leases and compares every byte: none is wrong, no lease is lost.
# - When an answer is lost, soft-RoCE completes some atomics without it.  The program must be told
#   that their outcome is unknown, and no add may return a wrong number.
#
#   RMEM_LOSS_SECONDS  how long each of 1 % and 5 % lasts, default 3
#   RMEM_ADDS          atomics, default 1000
uri="rmem://10.8.0.1?fabric=rdma"
keys_take
rig-await serving

for percent in 1 5; do
	rig-mark "begin.$percent"
	rig-await "lossy.$percent"
	loss_begin "$percent"
	timeout $((${RMEM_LOSS_SECONDS:-3} * 3 + 120)) "$BUILD/tests/integration/soak" "$uri" \
		"${RMEM_LOSS_SECONDS:-3}" "$RMEM_SEED" 16 262144 ||
		fail "soak with $percent %: status $?"
	loss_end
	rig-mark "end.$percent"
done
[ ! -e /sys/class/infiniband/siw0 ] || return 0 # it has no atomics

coproc COUNTED { "$BUILD/tests/rig/counted" "$uri" "${RMEM_ADDS:-1000}"; }
read -r line <&"${COUNTED[0]}" && [ "$line" = ready ] || fail "counted: $line"
rig-mark connected
rig-await loss
loss_begin 5
# shellcheck disable=SC2153 # of the coprocess
counted_pid=$COUNTED_PID
echo >&"${COUNTED[1]}"
cat <&"${COUNTED[0]}"
wait "$counted_pid" || fail "counted: status $?"
loss_end
rig-mark counted
