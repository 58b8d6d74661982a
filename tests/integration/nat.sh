#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Daemon and client in two network namespaces, with a router between them that translates addresses.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib-netns.sh"
need jq nft

FABRIC=tcp
far=rmem-far.$$
near=rmem-near.$$
router=rmem-router.$$
namespaces_add "$far" "$near" "$router"
cable "$router" net7 "$far" eth0 7
cable "$router" net9 "$near" eth0 9
ip -n "$near" route add default via 10.9.0.1
ip netns exec "$router" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
netns_exec=(ip netns exec "$far")
client_exec=(ip netns exec "$near")

# translate LINE...: the rules of the router, in place of those before
translate()
{
	ip netns exec "$router" nft -f - 2>"$dir/stderr" <<-END ||
		flush ruleset
		table ip rmem {
			chain source {
				type nat hook postrouting priority srcnat
				${1-}
			}
			chain destination {
				type nat hook prerouting priority dstnat
				${2-}
			}
		}
	END
		skip "no NAT: $(cat "$dir/stderr")"
}

# ---- the client's addresses ----

# two addresses to choose from: one for the control connection, the other for data
ip -n "$router" address add 10.7.0.11/24 dev net7
ip -n "$router" address add 10.7.0.12/24 dev net7
translate "tcp dport 7460 snat to 10.7.0.11
	tcp dport 7462 snat to 10.7.0.12"
LISTEN=10.7.0.2
make_file "$dir/in" 1000000
server_start
text='refuses a data stream: a channel from 10\.7\.0\.12 of a client at 10\.7\.0\.11'
expect_error 1 "$text, which \[tcp\] check_address " \
	client put name "$dir/in"
log_await '^channel-refused:.*a channel from 10.7.0.12' 20 || fail "the log does not tell"
[ "$(status_get .counters.refused.channel_address)" -gt 0 ] || fail "it is not counted"

config_extra="[tcp]
check_address = no"
server_config
rmemctl reload
client put name "$dir/in"
client get name "$dir/out"
same "$dir/in" "$dir/out"
ok "a client behind a NAT with two addresses"
server_stop

# ---- the server's address ----

# clients reach the router alone, under other ports, as those of a container
ip -n "$near" route add unreachable 10.7.0.0/24
translate "" "ip daddr 10.9.0.1 tcp dport 17460 dnat to 10.7.0.2:7460
	ip daddr 10.9.0.1 tcp dport 17462 dnat to 10.7.0.2:7462"
ip -n "$far" route add default via 10.7.0.1
published="rmem://10.9.0.1:17460?fabric=tcp"
# published_put: through the router, and back
published_put()
{
	uri="$published&channels=2"
	client put name "$dir/in"
	client get name "$dir/out"
	same "$dir/in" "$dir/out"
}
config_extra=
server_config
server_restart
uri=$published
expect_error 1 'connecting a data stream to 10\.7\.0\.2:7462: ' client put name "$dir/in"
server_stop
for advertise in 10.9.0.1:17462 "*:17462"; do
	config_extra="[tcp]
advertise = $advertise"
	server_config
	server_restart
	log_await "^ready: .*tcp port 7462 [(]clients are told ${advertise/\*/[*]}[)]" 20 ||
		fail "the log does not tell"
	rmemctl --json devices |
		jq -e --arg at "$advertise" '[.devices[].advertised] == [$at]' >/dev/null ||
		fail "$(rmemctl devices)"
	published_put
	server_stop
done
ok "a server behind a NAT"

# one for each address, of which a client uses both
ip -n "$far" address add 10.7.0.3/24 dev eth0
translate "" "ip daddr 10.9.0.1 tcp dport 17460 dnat to 10.7.0.2:7460
	ip daddr 10.9.0.1 tcp dport 17462 dnat to 10.7.0.2:7462
	ip daddr 10.9.0.1 tcp dport 17463 dnat to 10.7.0.3:7462"
LISTEN="10.7.0.2, 10.7.0.3"
config_extra="[tcp]
advertise = *:17462, *:17463"
server_config
server_restart
published_put
rmemctl --json devices | jq -e 'all(.devices[]; .channels_ever > 0)' >/dev/null ||
	fail "an address is not used: $(rmemctl devices)"
server_stop
ok "a server with two addresses behind a NAT"

config_extra="[tcp]
advertise = 10.9.0.1:17462"
server_config
expect_error 78 "advertise has 1 address: write 2, for 10.7.0.2, 10.7.0.3 of \[server\] listen" \
	"$RMEMD" --check-config --config "$dir/rmemd.conf"
