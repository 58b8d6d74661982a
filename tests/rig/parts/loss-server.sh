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
rig-mark serving
rig-await connected 300 || fail "the client does not connect"
loss_begin
rig-mark loss
rig-await counted 600 || fail "the client does not end"
loss_end
kill -TERM "$server_pid"
wait "$server_pid" || fail "rmemd ended with status $?"
