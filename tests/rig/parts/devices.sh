# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# `rmemctl devices` shows what ibv_devinfo and sysfs show of the device, and follows the state
# of its port.
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
server_start /tmp/rmemd.conf /tmp/admin.sock
rmemctl --socket /tmp/admin.sock devices || fail devices

# expect FILTER: a jq filter holds for the device in the JSON output
expect()
{
	rmemctl --socket /tmp/admin.sock --json devices >/tmp/devices.json || fail devices
	jq -e ".devices[] | select(.fabric == \"rdma\") | $1" /tmp/devices.json >/dev/null || {
		cat /tmp/devices.json >&2
		fail "the device does not satisfy: $1"
	}
}
device=$(rmemctl --socket /tmp/admin.sock --json devices |
	jq -r '.devices[] | select(.fabric == "rdma").device')
ibv_devinfo -v -d "$device" >/tmp/devinfo || fail ibv_devinfo

# devinfo NAME: the value that ibv_devinfo prints
devinfo()
{
	awk -v name="$1:" '$1 == name { print $2; exit }' /tmp/devinfo
}
for name in max_qp max_qp_wr max_sge max_cq max_cqe max_mr; do
	expect ".can.$name == $(devinfo $name)"
done
expect ".can.responder_resources == $(devinfo max_qp_rd_atom)"
expect ".can.initiator_depth == $(devinfo max_qp_init_rd_atom)"
expect ".device_port.number == 1 and .device_port.active_mtu == $(devinfo active_mtu)"
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

# port_await STATE: until the kernel says so
port_await()
{
	local i
	for ((i = 0; i < 300; i++)); do
		! grep -q "$1" "/sys/class/infiniband/$device/ports/1/state" || return 0
		sleep 0.1
	done
	fail "the port does not become $1"
}
expect '.device_port.state == "active"'
# soft-RoCE loses its carrier only: see "Good to know" in tests/rig/README.md
down=(carrier off) up=(carrier on)
[[ $device == rxe* ]] || down=(down) up=(up)
ip link set dummy0 "${down[@]}"
port_await DOWN
expect '.device_port.state == "down"'
ip link set dummy0 "${up[@]}"
port_await ACTIVE
server_stop
