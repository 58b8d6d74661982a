# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# For both sides of knobs: counts the packets of one traffic class that this machine sends.

# wire_watch CLASS: start to count
wire_watch()
{
	modprobe -a sch_ingress cls_u32 act_gact || fail "no packet filter"
	tc qdisc replace dev eth0 clsact || fail clsact
	tc filter add dev eth0 egress protocol ip u32 match ip dport 4791 0xffff \
		match ip tos "$1" 0xff action pass || fail "tc filter"
}

# wire_count: the number of packets
wire_count()
{
	tc -s filter show dev eth0 egress | awk '/Sent/ { n += $4 } END { print n + 0 }'
}
