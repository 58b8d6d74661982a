#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced after lib.sh by tests in several network namespaces, which all begin with free ports.
# shellcheck disable=SC2034,SC2154 # `port` is used by lib.sh, `dir` is set there

need ip
[ "$(id -u)" -eq 0 ] || skip "needs root for network namespaces"

namespaces=()
test_cleanup()
{
	local ns
	for ns in "${namespaces[@]}"; do
		ip netns del "$ns" 2>/dev/null || true
		rm -rf "/etc/netns/$ns"
	done
}

# namespaces_add NAMESPACE...
namespaces_add()
{
	local ns
	for ns; do
		ip netns add "$ns" 2>"$dir/stderr" ||
			skip "no network namespaces: $(cat "$dir/stderr")"
		namespaces+=("$ns")
		ip -n "$ns" link set lo up
	done
}

# cable NAMESPACE INTERFACE NAMESPACE INTERFACE NETWORK [MTU]: with the addresses .1 and .2
cable()
{
	local side ns interface number mtu=${6:-1500}
	ip -n "$1" link add "$2" type veth peer name "$4" netns "$3" 2>"$dir/stderr" ||
		skip "no veth here: $(cat "$dir/stderr")"
	for side in "$1 $2 1" "$3 $4 2"; do
		read -r ns interface number <<<"$side"
		ip -n "$ns" address add "10.$5.0.$number/24" dev "$interface"
		ip -n "$ns" address add "fd0$5::$number/64" dev "$interface" nodad
		ip -n "$ns" link set "$interface" mtu "$mtu" up
	done
}

ports_choose()
{
	port=7460
}
