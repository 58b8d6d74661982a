# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# `rmemctl devices` agrees with ibv_devinfo and sysfs, and shows changes of the port's state.
config_write /tmp/rmemd.conf \
	"server: listen=$RIG_ADDR insecure=yes" \
	"rdma: enabled=yes" \
	"pool main: size=16M"
server_start /tmp/rmemd.conf
admin devices || fail devices

device=$(admin --json devices |
	jq -r '.devices[] | select(.fabric == "rdma").device')
ibv_devinfo -v -d "$device" >/tmp/devinfo || fail ibv_devinfo

# devinfo NAME: the value that ibv_devinfo prints
devinfo()
{
	awk -v name="$1:" '$1 == name { print $2; exit }' /tmp/devinfo
}
for name in max_qp max_qp_wr max_sge max_cq max_cqe max_mr; do
	expect_device ".can.$name == $(devinfo $name)"
done
expect_device ".can.responder_resources == $(devinfo max_qp_rd_atom)"
expect_device ".can.initiator_depth == $(devinfo max_qp_init_rd_atom)"
expect_device ".device_port.number == 1 and .device_port.active_mtu == $(devinfo active_mtu)"
expect_device '.node == null and (.can.on_demand_paging | not)'
case $device in
rxe*)
	expect_device '.can.transport == "RoCE" and .can.atomics == "HCA" and .can.write_immediate'
	expect_device '.can.inline_bytes > 0'
	gid="::ffff:$RIG_ADDR"
	expect_device \
		"[.device_port.gids[] | select(.served)] | length == 1 and .[0].gid == \"$gid\""
	index=$(jq '.devices[].device_port // empty | .gids[] | select(.served).index' \
		/tmp/devices.json)
	grep -q 'RoCE v2' "/sys/class/infiniband/$device/ports/1/gid_attrs/types/$index" ||
		fail "GID $index"
	;;
*)
	expect_device '.can.transport == "iWARP" and .can.atomics == "none"
		and (.can.write_immediate | not)'
	;;
esac

# port_await STATE: wait until the kernel shows this state
port_await()
{
	await 30 grep -q "$1" "/sys/class/infiniband/$device/ports/1/state" ||
		fail "the port does not become $1"
}
expect_device '.device_port.state == "active"'
# soft-RoCE loses only its carrier: see "Good to know" in tests/rig/README.md
down=(carrier off) up=(carrier on)
[[ $device == rxe* ]] || down=(down) up=(up)
ip link set dummy0 "${down[@]}"
port_await DOWN
expect_device '.device_port.state == "down"'
ip link set dummy0 "${up[@]}"
port_await ACTIVE
server_stop
