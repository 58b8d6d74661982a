#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `rmemctl devices` on soft-RoCE and iWARP: what it says of a device is what ibv_devinfo and
# sysfs say, and follows the port.
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

cat >"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
guest_install
cat >/tmp/rmemd.conf <<-CONF
	[server]
	listen = $RIG_ADDR
	insecure = yes
	[rdma]
	enabled = yes
	[admin]
	socket = /tmp/admin.sock
	[pool main]
	size = 16M
CONF
before=$(rdma_objects)
server_start /tmp/rmemd.conf /tmp/admin.sock
rmemctl --socket /tmp/admin.sock devices || fail devices

# expect FILTER: of the device's element in JSON
expect()
{
	rmemctl --socket /tmp/admin.sock --json devices >/tmp/devices.json || fail devices
	jq -e ".devices[] | select(.fabric == \"rdma\") | $1" /tmp/devices.json >/dev/null || {
		cat /tmp/devices.json >&2
		fail "not so: $1"
	}
}
device=$(rmemctl --socket /tmp/admin.sock --json devices |
	jq -r '.devices[] | select(.fabric == "rdma").device')
ibv_devinfo -v -d "$device" >/tmp/devinfo || fail ibv_devinfo

# said NAME: what ibv_devinfo says
said()
{
	awk -v name="$1:" '$1 == name { print $2; exit }' /tmp/devinfo
}
for name in max_qp max_qp_wr max_sge max_cq max_cqe max_mr; do
	expect ".can.$name == $(said $name)"
done
expect ".can.responder_resources == $(said max_qp_rd_atom)"
expect ".can.initiator_depth == $(said max_qp_init_rd_atom)"
expect ".device_port.number == 1 and .device_port.active_mtu == $(said active_mtu)"
expect '.node == null and (.can.on_demand_paging | not)'
case $device in
rxe*)
	expect '.can.transport == "RoCE" and .can.atomics == "HCA" and .can.write_immediate'
	expect '.can.inline_bytes > 0'
	gid="::ffff:$RIG_ADDR"
	expect "[.device_port.gids[] | select(.served)] | length == 1 and .[0].gid == \"$gid\""
	index=$(jq '.devices[].device_port // empty | .gids[] | select(.served).index' /tmp/devices.json)
	grep -q 'RoCE v2' "/sys/class/infiniband/$device/ports/1/gid_attrs/types/$index" ||
		fail "GID $index"
	;;
*)
	expect '.can.transport == "iWARP" and .can.atomics == "none" and (.can.write_immediate | not)'
	;;
esac
expect '.device_port.state == "active"'
ip link set dummy0 down
for ((i = 0; i < 50; i++)); do
	grep -q ACTIVE "/sys/class/infiniband/$device/ports/1/state" || break
	sleep 0.1
done
expect '.device_port.state == "down"'
server_stop
rdma_idle "$before"
kernel_clean
CMD

for leg in $(legs 612:rxe 612:siw); do
	echo "== kernel ${leg%:*}, ${leg#*:}"
	"$RIG" run --kernel "${leg%:*}" --device "${leg#*:}" --timeout 120 \
		"bash $WORK/cmd.sh $WORK" || {
		echo "FAILED on $leg: $?"
		exit 1
	}
done
