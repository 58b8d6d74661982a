# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-3-Clause
# For both sides of silence: the ways in which sessions fall silent.
#
#   control-cut    the control connection loses every packet, RDMA does not
#   stop           SIGSTOP for both processes of the client, and SIGCONT after the fence
#   keeper-stop    SIGSTOP for the one with the control connection: the other one writes on
#   kill           SIGKILL for both
#   keeper-kill    SIGKILL for the one with the control connection
#   cut            no packet arrives in either direction, and all do after the fence
#   cut-to-server  none arrives at the server
#   cut-to-client  none arrives at the client
#   power-off      the client's machine vanishes
#   panic          its kernel panics
# drop MATCH...: drop the packets that arrive and match
drop()
{
	tc filter add dev eth0 ingress protocol ip "$@" action drop || fail "no tc filter"
}

drop_end()
{
	tc filter del dev eth0 ingress || fail "no tc filter to delete"
}

# The files of a wave: how its sessions fall silent, at the same time; their marks and ports.
kinds_of=/rig/peer/silence.kinds.
sessions_of=/rig/peer/silence.sessions.

tc qdisc replace dev eth0 clsact || fail "no clsact"
