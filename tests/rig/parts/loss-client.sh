# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Of the packets that arrive at either machine, 5 % are lost.  Soft-RoCE completes some atomics whose
# answer was lost without it: the program must be told that their outcome is unknown, and no add may
# return a wrong number.  It drops with an action, as netem has no queue for packets that arrive.
rig-await loss
tc qdisc replace dev eth0 clsact || fail "no clsact"
tc filter add dev eth0 ingress protocol ip u32 match ip protocol 17 0xff \
	match ip dport 4791 0xffff action gact pass random netrand drop 20 || fail "no tc filter"
"$BUILD/tests/rig/counted" "rmem://10.8.0.1?fabric=rdma" "${RMEM_ADDS:-3000}" ||
	fail "counted: status $?"
tc -s filter show dev eth0 ingress | grep -A3 random
tc qdisc del dev eth0 clsact
rig-mark counted
