#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The metrics: over the admin socket and an address, equal, good for Prometheus, and right about
# what clients did.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need curl promtool

ports_choose
metrics_port=$port
while [ "$metrics_port" -eq "$port" ]; do
	ports_choose
done
config_extra="[metrics]
listen = $LISTEN:$metrics_port"
server_config
server_restart

# get PATH [OPTION OF curl...]: the answer of the address
get()
{
	curl -sS --fail --max-time 20 "${@:2}" "http://$LISTEN:$metrics_port$1"
}

# metric SERIES: the value of a series
metric()
{
	get /metrics | awk -v name="$1" '$1 == name { print $2; found = 1 } END { exit !found }'
}

# metric_is SERIES VALUE
metric_is()
{
	local value
	value=$(metric "$1") || fail "there is no $1"
	[ "$value" = "$2" ] || fail "$1 is $value, not $2"
}

names()
{
	sed -n 's/^# TYPE //p' | sort
}

diff <(get /metrics | names) <(rmemctl metrics | names) || fail "rmemctl metrics differs"
get /metrics | promtool check metrics || fail "promtool complains"
type=$(get /metrics -o /dev/null -w '%{content_type}')
[ "$type" = "text/plain; version=0.0.4; charset=utf-8" ] || fail "content type $type"
[ -z "$(get /metrics --head -o /dev/null)" ] || fail "HEAD"
grep -q "^metrics-served: .*http://$LISTEN:$metrics_port/metrics" "$server_log" || fail "the log"
ok "the format"

for request in "200 GET /v1/status" "404 GET /v2" "405 POST /metrics" "405 POST /v1/status" \
	"404 POST /v1/reload"; do
	read -r want method path <<<"$request"
	code=$(curl -s -o "$dir/answer" -w '%{http_code}' --max-time 20 -X "$method" \
		"http://$LISTEN:$metrics_port$path")
	[ "$code" = "$want" ] || fail "$method $path gave $code: $(cat "$dir/answer")"
done
ok "nothing acts there"

expect_error 2 'metrics: it has one format' rmemctl --json metrics

make_file "$dir/in" 3000000
client put kept "$dir/in"
metric_is 'rmemd_leases{kind="named"}' 1
metric_is rmemd_leases_bytes 3000000
metric_is rmemd_leases_granted_total 1
metric_is rmemd_sessions_opened_total 1
metric_is 'rmemd_tenant_leases{tenant="default"}' 1
metric_is 'rmemd_pool_size_bytes{pool="small"}' $((192 << 20))
[ "$(metric 'rmemd_pool_lent_bytes{pool="small"}')" -ge 3000000 ] || fail "lent bytes"
expect_error 1 '' client get missing "$dir/out"
metric_is 'rmemd_requests_refused_total{reason="missing"}' 1
ok "the numbers"

# operations and bytes: the daemon's own numbers of TCP, the kernel's of RDMA
port_sum()
{
	get /metrics | awk -v name="$1" '
		index($1, name "{") == 1 && index($1, device) { sum += $2; n++ }
		END { if (n) printf "%.0f\n", sum; else print "none" }' device="device=\"$2"
}
port_is_above()
{
	[ "$(port_sum "$1" "$2")" != none ] && [ "$(port_sum "$1" "$2")" -gt "$3" ]
}
case $FABRIC in
tcp)
	received=$(port_sum rmemd_port_received_bytes_total tcp)
	[ "$received" -ge 3000000 ] || fail "$received bytes received"
	[ "$received" -lt 4000000 ] || fail "$received bytes received"
	client get kept "$dir/out"
	port_is_above rmemd_port_sent_bytes_total tcp 2999999 || fail "bytes sent"
	metric_is "rmemd_port_operations_refused_total{device=\"tcp\",port=\"$((port + 2))\"}" 0
	;;
rdma)
	metric_is 'rmemd_port_up{device="'"$(ls /sys/class/infiniband)"'",port="1"}' 1
	client get kept "$dir/out"
	case $(ls /sys/class/infiniband) in
	rxe*)
		# at most a second old
		poll_await 20 port_is_above rmemd_port_received_packets_total rxe 1000 ||
			fail "packets received: $(get /metrics | grep rmemd_port)"
		poll_await 20 port_is_above rmemd_port_sent_packets_total rxe 1000 ||
			fail "packets sent"
		;;
	*)
		[ "$(port_sum rmemd_port_received_packets_total siw)" = none ] || fail "siw counts"
		;;
	esac
	;;
esac
[ "$(metric rmemd_grant_seconds_count)" -ge 1 ] || fail "grants"
[ "$(metric rmemd_registration_seconds_count)" -ge 1 ] || fail "registrations"
[ "$(metric rmemd_loop_turn_seconds_count)" -ge 10 ] || fail "turns"
ok "the traffic"

# idle connections neither keep others out nor use up descriptors
for i in {1..100}; do
	exec {fd}<>"/dev/tcp/$LISTEN/$metrics_port"
done
get /metrics >/dev/null || fail "idle connections keep others out"
sockets=$(find "/proc/$server_pid/fd" -lname 'socket:*' | wc -l)
[ "$sockets" -lt 60 ] || fail "$sockets sockets are open"
ok "100 idle connections"

for value in 127.0.0.1 '[127.0.0.1]:9' '::1:9' '127.0.0.1:0' 'host:1' '127.0.0.1:70000'; do
	printf '[metrics]\nlisten = %s\n' "$value" >"$dir/bad.conf"
	expect_error 78 'bad.conf:2: listen: ' "$RMEMD" --check-config -c "$dir/bad.conf"
done
sed "s/:$metrics_port/:$port/" "$dir/rmemd.conf" >"$dir/taken.conf"
sed -i "s/^port = $port/port = $((port + 3))/; s,admin.sock,admin2.sock," "$dir/taken.conf"
expect_error 1 "\[metrics\] listen = $LISTEN:$port: the port is taken" \
	"$RMEMD" -c "$dir/taken.conf"

server_stop
