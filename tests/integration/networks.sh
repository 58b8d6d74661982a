#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A daemon on two networks, with clients that reach only one of them, over IPv4 and IPv6, and the
# wildcards of [server] listen.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib-netns.sh"
need jq

FABRIC=tcp
far=rmem-far.$$
one=rmem-one.$$
two=rmem-two.$$
namespaces_add "$far" "$one" "$two"
cable "$far" net7 "$one" eth0 7
cable "$far" net9 "$two" eth0 9
netns_exec=(ip netns exec "$far")

make_file "$dir/in" 1000000

# served LISTEN
served()
{
	LISTEN=$1
	ports_choose
	server_config
	server_restart
}

# passes NAMESPACE HOST[&OPTION]: bytes go there and back
passes()
{
	client_exec=(ip netns exec "$1")
	uri="rmem://${2%%&*}:$port?fabric=tcp"
	case $2 in *"&"*) uri+="&${2#*&}" ;; esac
	client put name "$dir/in"
	client get name "$dir/out"
	same "$dir/in" "$dir/out"
	client rm name
}

# ---- two networks ----

served "10.7.0.1, 10.9.0.1"
passes "$one" 10.7.0.1
passes "$two" 10.9.0.1
# the route leads nowhere for the second channel, too
passes "$two" "10.9.0.1&channels=2"
granted=$(rmemctl --json devices | jq '[.devices[].channels_ever] | min')
[ "$granted" -gt 0 ] || fail "an address is not used: $(rmemctl devices)"
ok "each network"

# a route on which every packet is lost: the queue does without the second channel
ip -n "$two" route add 10.7.0.0/24 via 10.9.0.77
ip -n "$two" neighbour add 10.9.0.77 lladdr 02:00:00:00:00:77 dev eth0
passes "$two" "10.9.0.1&channels=2"
ip -n "$two" route del 10.7.0.0/24
ok "a network that is silent"

server_stop
served "10.7.0.1, 10.9.0.1, fd09::1"
passes "$one" 10.7.0.1
passes "$two" "[fd09::1]"
server_stop
ok "an address of IPv6 on one of them"

# ---- wildcards ----

served "0.0.0.0, fd09::1"
passes "$one" 10.7.0.1
passes "$two" 10.9.0.1
passes "$two" "[fd09::1]"
server_stop
served "10.7.0.1, ::"
passes "$one" 10.7.0.1
passes "$one" "[fd07::1]"
passes "$two" "[fd09::1]"
client_exec=(ip netns exec "$two")
uri="rmem://10.9.0.1:$port" expect_error 1 "Connection refused" client ping -c 1
server_stop
served "0.0.0.0, ::"
passes "$one" 10.7.0.1
passes "$one" "[fd07::1]"
passes "$two" 10.9.0.1
server_stop
served "::"
passes "$one" "[fd07::1]"
# neither control connections nor data
for at in "$port" $((port + 2)); do
	ip netns exec "$one" bash -c "exec 3<>/dev/tcp/10.7.0.1/$at" 2>/dev/null &&
		fail ":: serves IPv4 at port $at"
done
server_stop
ok "wildcards"
