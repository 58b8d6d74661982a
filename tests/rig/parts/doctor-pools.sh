# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Pools without their huge pages, and far from the device.  Node 0 has 64 huge pages, node 1 none
# and the network card.
# shellcheck source=tests/rig/guest/doctor-functions
. "${top_srcdir:?}/tests/rig/guest/doctor-functions"
doctor=(rmemctl doctor -q -c /tmp/rmemd.conf)
rdma link delete rxe0
modprobe virtio_net
card=
for interface in /sys/class/net/*; do
	[ ! -e "$interface/device" ] || card=${interface##*/}
done
[ -n "$card" ] || fail "no network card"
ip link set "$card" mtu 4200 up
ip address add 10.20.0.1/24 dev "$card"
rdma link add rxe0 type rxe netdev "$card" || fail "no device"

config_write /tmp/rmemd.conf \
	"server: listen=10.20.0.1 insecure=yes" \
	"pool main: size=64M page_size=2M node=1"
host "the huge pages are on the other node" "${doctor[@]}"
says error huge-pages "'main' needs 32 pages of 2M on node 1, 0 are free" \
	'node0/.*free_hugepages: enough, but node 0 is not that of the pool' '^echo 32 >.*node1/'
fixes huge-pages
heals huge-pages numa
says ok numa "'main' is on node 1" '' ''

sed -i 's/^node = 1$/node = 0/' /tmp/rmemd.conf
host "the pool is on one node, the device on the other" "${doctor[@]}"
says warning numa "'main' is on node 0, its RDMA device rxe0 on node 1" \
	"net/$card/device/.*numa_node: 1" 'node = 1'

sed -i 's/^size = 64M$/size = 512M/' /tmp/rmemd.conf
host "too few huge pages" "${doctor[@]}"
says error huge-pages "'main' needs 256 pages of 2M on node 0, 64 are free" '' '^echo 256 >.*node0/'
fixes huge-pages
heals huge-pages
echo 0 >/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages

sed -i -e 's/^size = 512M$/size = 64M/' -e 's/^page_size = 2M$/page_size = thp/' /tmp/rmemd.conf
echo never >/sys/kernel/mm/transparent_hugepage/shmem_enabled
host "no transparent huge pages for shared memory" "${doctor[@]}"
says error thp "'main' gets no transparent huge pages" 'shmem_enabled: never' '^echo advise >'
fixes thp
heals thp
server_start /tmp/rmemd.conf
rmemctl doctor -c /tmp/rmemd.conf || true
server_stop

sed -i 's/^node = 0$/node = 4/' /tmp/rmemd.conf
host "a node without memory" "${doctor[@]}"
says error numa "'main' is to be on node 4, which has no memory" 'has_memory: 0-1' ''
sed -i -e 's/^node = 4$/node = 0/' -e 's/^size = 64M$/size = 64G/' \
	-e 's/^page_size = thp$/page_size = base/' /tmp/rmemd.conf
host "too little memory" "${doctor[@]}"
says error huge-pages "'main' needs 64 GiB on node 0, .* are available" 'node0/meminfo' ''
echo "$broken broken hosts"
rdma link delete rxe0
ip link set dummy0 down
rdma link add rxe0 type rxe netdev dummy0
