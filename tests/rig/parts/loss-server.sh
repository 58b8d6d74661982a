# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The server of two machines; see loss-client.sh.
cat >/tmp/loss.conf <<-CONF
	[server]
	listen = 10.8.0.1
	insecure = yes
	[session]
	heartbeat = 5s
	fence = 60s
	[rdma]
	enabled = yes
	[pool main]
	size = 16M
CONF
rmemd --config /tmp/loss.conf &
server_pid=$!
tc qdisc replace dev eth0 clsact || fail "no clsact"
tc filter add dev eth0 ingress protocol ip u32 match ip protocol 17 0xff \
	match ip dport 4791 0xffff action gact pass random netrand drop 20 || fail "no tc filter"
rig-mark loss
rig-await counted 600 || fail "the client does not end"
tc qdisc del dev eth0 clsact
kill -TERM "$server_pid"
wait "$server_pid" || fail "rmemd ended with status $?"
