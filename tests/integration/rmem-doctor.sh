#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rmem doctor against a healthy server, and against broken ones: the probe names the step that
# fails.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq

# examine STATUS ARGUMENT...: run the doctor; its exit status is STATUS
examine()
{
	local want=$1 status=0
	shift
	"${client_exec[@]}" timeout -k 5 $((client_limit * patience)) \
		"$RMEM" doctor --timeout 2s --json "$@" >"$dir/json" 2>"$dir/err" || status=$?
	[ "$status" -eq "$want" ] || {
		cat "$dir/json" "$dir/err"
		fail "the exit status is $status, not $want"
	}
}

# The clock of the machine may not be synchronised, which is a warning.
good=0
examine_clock()
{
	local status=0
	"$RMEM" doctor --json 127.0.0.1:1 >"$dir/json" || status=$?
	[ "$status" -eq 4 ] || fail "no server, and the exit status is $status"
	! jq -e '.findings | any(.check == "clock" and .level == "warning")' "$dir/json" \
		>/dev/null || good=3
}

# fails STEP TEXT FIX: over TCP this step fails, and none after it was done
fails()
{
	jq -e --arg step "$1" --arg text "$2" --arg fix "$3" '
		(.probes[] | select(.fabric == "tcp") | .works == false and .failed == $step
			and all(.steps[]; .step != $step))
		and (.findings | any(.[]; .check == "server" and .level == "error"
			and (.text | test("over tcp the step .\($step). fails"))
			and any(.seen[]; .value | test($text)) and any(.fix[]; test($fix))))' \
		"$dir/json" >/dev/null || {
		jq . "$dir/json"
		fail "over TCP $1 does not fail with $2"
	}
	ok "$1: $(jq -r '.findings[] | select(.check == "server") | .seen[0].value' "$dir/json")"
}

examine_clock
fails connect 'Connection refused' 'does rmemd run, at this address and port'
server_start

# ---- a healthy server ----

examine "$good" "$uri"
jq -e '.probes | length == 1 and .[0].works and .[0].failed == null
	and ([.[0].steps[].step] == ["resolve", "connect", "welcome", "channel", "lease",
		"write", "read", "compare", "free"])
	and all(.[0].steps[]; .ns > 0)
	and .[0].ns >= ([.[0].steps[].ns] | add) * 0.99' "$dir/json" >/dev/null ||
	fail "the healthy server: $(jq -c .probes "$dir/json")"
client --timeout 5s doctor >"$dir/text" || [ $? -eq "$good" ] || fail "doctor"
grep -qE '^over tcp: .*:[0-9]+, auth none$' "$dir/text" || fail "$(cat "$dir/text")"
grep -qE '^  all +[0-9.]+ ms$' "$dir/text" || fail "$(cat "$dir/text")"
lent_zero 20
ok "a healthy server"
# this host has no RDMA device, or the server serves none
examine 3 "rmem://$LISTEN:$port"
jq -e '.probes | length == 2 and .[0].fabric == "rdma" and .[0].failed == "channel"
	and .[1].works' "$dir/json" >/dev/null || fail "both fabrics: $(jq -c .probes "$dir/json")"
jq -e '.findings | any(.check == "server" and .level == "warning"
	and any(.seen[]; .value | test("RDMA cannot be used")))' "$dir/json" >/dev/null ||
	fail "no warning"
examine 4 "rmem://$LISTEN:$port?fabric=rdma"
jq -e '.probes | length == 1 and .[0].fabric == "rdma"' "$dir/json" >/dev/null ||
	fail "$(cat "$dir/json")"
ok "without RDMA"

# ---- wrong words ----

expect_error 2 'doctor: .*there is no option .nonsense' \
	"$RMEM" doctor "$LISTEN:$port?fabric=tcp&nonsense=1"
expect_error 2 'doctor: it takes at most one URI' "$RMEM" doctor a b
examine 4 'nowhere.invalid?fabric=tcp'
fails resolve 'resolving nowhere.invalid' '^getent ahosts'

# ---- no lease ----

server_stop
config_extra="
[tenant default]
lease_max = 4K
"
server_config
server_restart
examine 4 "$uri"
fails lease '.' 'rmemctl pools; rmemctl tenants'
server_stop

# ---- authentication ----

"$RMEMCTL" keygen default "$dir" >"$dir/out"
mkdir "$dir/stranger"
"$RMEMCTL" keygen default "$dir/stranger" >"$dir/out"
config_extra="
[server]
auth = psk
psk = $dir/rmemd.psk
"
server_config
server_restart
examine "$good" "$uri&psk=$dir/default.psk"
jq -e '.probes[0] | .works and ([.steps[].step] | index("tls") == 2)' "$dir/json" >/dev/null ||
	fail "$(jq -c .probes "$dir/json")"
examine 4 "$uri&psk=$dir/stranger/default.psk"
fails tls 'TLS|key' 'journalctl -u rmemd'
examine 4 "$uri"
fails welcome 'key|TLS|auth' 'journalctl -u rmemd'
server_stop
config_extra=
server_config
server_restart
examine 4 "$uri&psk=$dir/default.psk"
fails tls '.' 'journalctl -u rmemd'
server_stop

# ---- a network that drops packets ----

need nft
. "$(dirname "$0")/lib-netns.sh"
far=rmem-far.$$
near=rmem-near.$$
namespaces_add "$far" "$near"
cable "$far" eth0 "$near" eth0 9
netns_exec=(ip netns exec "$far")
client_exec=(ip netns exec "$near")
LISTEN=10.9.0.1
server_config
server_restart
examine "$good" "$uri"
# what the server's doctor tells to run on a client
ip netns exec "$far" "$RMEMCTL" --json doctor -c "$dir/rmemd.conf" >"$dir/out" || [ $? -ge 3 ] ||
	fail "rmemctl doctor ended with $?"
told=$(jq -r '.findings[] | select(.check == "clients") | .fix[]' "$dir/out")
[ "$told" = "rmem doctor rmem://10.9.0.1:$port   # on a client" ] ||
	fail "the server's doctor: $(cat "$dir/out")"

# rules RULE...: the firewall of the server
rules()
{
	local rule
	ip netns exec "$far" nft flush ruleset
	ip netns exec "$far" nft add table inet fw
	ip netns exec "$far" nft add chain inet fw in '{ type filter hook input priority 0; }'
	for rule; do
		# shellcheck disable=SC2086 # words of nft
		ip netns exec "$far" nft add rule inet fw in $rule
	done
}
if ip netns exec "$far" nft list ruleset >"$dir/out" 2>&1; then
	rules "tcp dport $((port + 2)) drop"
	examine 4 "$uri"
	fails channel '.' 'its firewall, for the port of \[tcp\]'
	rules "tcp dport $port drop"
	examine 4 "$uri"
	fails connect 'no answer|timed out' 'its firewall; and is this its address'
	rules "tcp dport $port reject with tcp reset"
	examine 4 "$uri"
	fails connect 'refused' 'does rmemd run'
else
	echo "no nftables in this kernel: $(cat "$dir/out")"
fi
server_stop
