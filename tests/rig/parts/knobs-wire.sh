# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# For both sides of knobs: the packets that leave with one traffic class are counted.

# wire_watch CLASS
wire_watch()
{
	modprobe -a sch_ingress cls_u32 act_gact || fail "no packet filter"
	tc qdisc replace dev eth0 clsact || fail clsact
	tc filter add dev eth0 egress protocol ip u32 match ip dport 4791 0xffff \
		match ip tos "$1" 0xff action pass || fail "tc filter"
}

# the number of packets that left with that class
wire_count()
{
	tc -s filter show dev eth0 egress | awk '/Sent/ { n += $4 } END { print n + 0 }'
}
