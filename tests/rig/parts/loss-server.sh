# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The server of two machines; see loss-client.sh.
config_write /tmp/rmemd.conf "server: listen=10.8.0.1 $(keys_give)" "rdma: enabled=yes" \
	"pool main: size=32M"
server_start /tmp/rmemd.conf
rig-mark serving

for percent in 1 5; do
	rig-await "begin.$percent" 300 || fail "the client does not come to $percent %"
	loss_begin "$percent"
	rig-mark "lossy.$percent"
	rig-await "end.$percent" 600 || fail "the client does not end"
	loss_end
	fenced=$(admin --json status | jq .counters.sessions_fenced)
	echo "$percent %: sessions fenced so far: $fenced"
done

if [ ! -e /sys/class/infiniband/siw0 ]; then
	rig-await connected 300 || fail "the client does not connect"
	loss_begin 5
	rig-mark loss
	rig-await counted 600 || fail "the client does not end"
	loss_end
fi
server_stop
