# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The server of two machines; see forgotten-client.sh.
config_write /tmp/rmemd.conf "server: listen=10.8.0.1 $(keys_give)" "rdma: enabled=yes" \
	"session: fence=20s" "pool main: size=64M"
server_start /tmp/rmemd.conf
modprobe -a nf_tables nft_ct || fail "no nf_tables"
# the ports of 4791 are those of soft-RoCE's queue pairs
nft -f - <<-END || fail "no rules"
	table ip rmem {
		set flows {
			type inet_service
			size 1024
			flags dynamic
		}
		chain seen {
			meta l4proto { tcp, udp } th dport { 4791, 7461, 7462 } \
				add @flows { th sport }
		}
		chain input {
			type filter hook input priority 0
		}
	}
END
rig-mark serving

# a firewall that forgets the flows that it has seen since, but for those to come
for fabric in rdma tcp; do
	rig-await "connected.$fabric" 300 || fail "the client does not connect over $fabric"
	nft add rule ip rmem input jump seen
	rig-mark "watched.$fabric"
	rig-await "moved.$fabric" 300 || fail "the client does not write over $fabric"
	nft flush chain ip rmem input
	nft list set ip rmem flows
	nft add rule ip rmem input meta l4proto '{ tcp, udp }' th dport '{ 4791, 7461, 7462 }' \
		th sport @flows counter drop || fail "no rule"
	rig-mark "forgotten.$fabric"
	rig-await "ended.$fabric" 300 || fail "the client does not end over $fabric"
	nft list chain ip rmem input | grep -q 'packets 0 ' &&
		fail "nothing was dropped over $fabric"
	nft flush chain ip rmem input
	nft flush set ip rmem flows
	! grep ^session-fenced: /tmp/rmemd.log || fail "the session was lost"
done
nft delete table ip rmem
server_stop
