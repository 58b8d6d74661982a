# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# iWARP connections are TCP connections: a client connects although TCP uses many of the ports that
# rdma_cm may choose.
config_write /tmp/rmemd.conf \
	"server: listen=$RIG_ADDR insecure=yes" \
	"rdma: enabled=yes" \
	"pool main: size=16M"
server_start /tmp/rmemd.conf
range=$(cat /proc/sys/net/ipv4/ip_local_port_range)
echo 40000 40127 >/proc/sys/net/ipv4/ip_local_port_range || fail "no range of ports"
# rmemd closes a connection without a message; the port stays in use until this end is closed, too
for ((i = 0; i < 48; i++)); do
	# shellcheck disable=SC2034 # stays open
	exec {fd}<>"/dev/tcp/$RIG_ADDR/7460" || fail "connection $i"
done
ss -tan "src $RIG_ADDR and sport >= 40000 and sport < 40128" | wc -l
head -c 1000000 /dev/urandom >/tmp/file
uri="rmem://$RIG_ADDR?fabric=rdma&channels=8"
for ((i = 0; i < 4; i++)); do
	rmem put --server "$uri" thing /tmp/file || fail "put"
	rmem get --server "$uri" thing /tmp/copy || fail "get"
	cmp /tmp/file /tmp/copy || fail "get returned other bytes"
	rmem rm --server "$uri" thing || fail "rm"
done
server_stop
echo "$range" >/proc/sys/net/ipv4/ip_local_port_range
