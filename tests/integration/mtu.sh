#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A link on the way has a lesser MTU than the hosts, and what its routers say of it is lost: rmem
# doctor names the length that arrives.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib-netns.sh"
need jq nft

FABRIC=tcp
near=rmem-near.$$
left=rmem-left.$$
right=rmem-right.$$
far=rmem-far.$$
namespaces_add "$near" "$left" "$right" "$far"
for ns in "${namespaces[@]}"; do
	ip netns exec "$ns" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward
		echo 1 >/proc/sys/net/ipv6/conf/all/forwarding'
done
cable "$near" eth0 "$left" eth0 9 1500
cable "$left" eth1 "$right" eth1 8 1400
cable "$right" eth0 "$far" eth0 7 1500
# way NAMESPACE NETWORK.NUMBER: its default routes
way()
{
	ip -n "$1" route add default via "10.${2%.*}.0.${2#*.}"
	ip -n "$1" route add default via "fd0${2%.*}::${2#*.}"
}
way "$near" 9.2
way "$left" 8.2
way "$right" 8.1
way "$far" 7.1
netns_exec=(ip netns exec "$far")
client_exec=(ip netns exec "$near")

# silent ROUTER...: these routers say nothing
silent()
{
	local ns
	for ns in "$left" "$right"; do
		ip netns exec "$ns" nft flush ruleset
	done
	for ns; do
		ip netns exec "$ns" nft -f - 2>"$dir/stderr" <<-END ||
			table inet rmem {
				chain output {
					type filter hook output priority 0
					icmp type destination-unreachable drop
					icmpv6 type packet-too-big drop
				}
			}
		END
			skip "no nftables: $(cat "$dir/stderr")"
	done
}

# probing MODE: whether TCP finds the length itself, on both hosts
probing()
{
	local ns
	for ns in "$near" "$far"; do
		ip netns exec "$ns" sh -c "echo $1 >/proc/sys/net/ipv4/tcp_mtu_probing"
		ip -n "$ns" tcp_metrics flush all 2>/dev/null || true
		ip -n "$ns" route flush cache
		ip -n "$ns" -6 route flush cache
	done
}

# examine: what the doctor finds of the path: its level and its text
examine()
{
	client --timeout 2s doctor --json >"$dir/json" 2>"$dir/err" || true
	jq -r '.findings[] | select(.check == "path-mtu") | "\(.level): \(.text)"' "$dir/json"
}

# finds PATTERN
finds()
{
	local found
	found=$(examine)
	[[ $found =~ $1 ]] ||
		fail "the doctor says: $found ($(jq -c '.probes, .findings' "$dir/json"))"
	ok "$found"
}

# works: nothing is found, as all steps are done
works()
{
	local found
	found=$(examine)
	[ -z "$found" ] || fail "the doctor says: $found"
	jq -e '.probes[0].works' "$dir/json" >/dev/null ||
		fail "the probe fails: $(cat "$dir/json")"
}

make_file "$dir/short" 1000
make_file "$dir/long" 1000000
LISTEN="10.7.0.2, fd07::2"
ports_choose
server_config
server_restart
for host in 10.7.0.2 "[fd07::2]"; do
	uri="rmem://$host:$port?fabric=tcp"
	probing 0
	silent
	works
	ok "$host: the routers say it"
	# the server alone is not told; first, as a client that was not told leaves a connection
	# that goes on trying, and which tells this host once the router's word gets through
	probing 0
	silent "$right"
	finds '^warning: packets of 1400 bytes reach the server, but its long answers do not arrive'
	probing 0
	silent "$left" "$right"
	finds '^error: packets of up to 1400 bytes reach the server, longer ones are lost'
	jq -e --arg host "$host" '.findings[] | select(.check == "path-mtu") |
		(.seen[0].source == "\($host):7460") and
		(.seen[0].value | test("1401 are not within [0-9]+ ms, and TCP sends 1500")) and
		any(.fix[]; test("tcp_mtu_probing=2"))' "$dir/json" >/dev/null ||
		fail "$(cat "$dir/json")"
	# what is short passes
	client put short "$dir/short"
	text='its time was over: the server is there, but what was sent for it was not acknowledged'
	expect_error 1 "$text; rmem doctor " \
		client --timeout 3s put long "$dir/long"
	probing 2
	works
	ok "$host: TCP finds the length"
done
server_stop
