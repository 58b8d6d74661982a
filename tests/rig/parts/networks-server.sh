# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The server of two networks; see networks-client.sh.
config_write /tmp/rmemd.conf "server: listen=10.8.0.1,10.9.0.1 insecure=yes" "rdma: enabled=yes" \
	"session: heartbeat=500ms fence=3s grace=120s" "pool main: size=256M"
server_start /tmp/rmemd.conf
admin devices
rig-mark serving

for network in 1 0; do
	rig-await "lose.$network" 300 || fail "the client does not come to network $network"
	network_lose "$network"
	rig-mark "lost.$network"
	rig-await "heal.$network" 300 || fail "the client does not go on without network $network"
	network_heal "$network"
	rig-mark "healed.$network"
	[ "$network" = 0 ] || ! grep ^session-fenced: /tmp/rmemd.log ||
		fail "the session was lost with network 1"
done
rig-await ended 300 || fail "the client does not end"
server_stop
