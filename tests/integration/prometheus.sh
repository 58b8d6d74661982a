#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A Prometheus scrapes the daemon.  Each query of the alert rules and of the dashboard runs there,
# and gives series where the daemon has such numbers; the rules are right about what they alert.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need curl jq prometheus promtool

rules=$top_srcdir/etc/rmemd.rules.yml
dashboard=$top_srcdir/etc/rmemd.dashboard.json

promtool check rules "$rules" >"$dir/out" 2>&1 || fail "$(cat "$dir/out")"
cp "$rules" "$top_srcdir/tests/integration/rules-test.yml" "$dir/"
(cd "$dir" && promtool test rules rules-test.yml) >"$dir/out" 2>&1 || fail "$(cat "$dir/out")"
ok "the rules and their tests"

# every metric that rules and dashboard name is one of the daemon's
ports_choose
metrics_port=$port
while [ "$metrics_port" -eq "$port" ]; do
	ports_choose
done
prometheus_port=$((metrics_port + 1))
config_extra="[metrics]
listen = $LISTEN:$metrics_port
[tenant default]
bytes = 100M"
server_config
server_restart
rmemctl metrics | sed -nE 's/^# TYPE ([a-z_]+) (.*)/\1/p' | sort >"$dir/known"
{ grep -oE 'rmemd_[a-z_]+' "$rules"; jq -r '.. | .expr? // empty' "$dashboard" |
	grep -oE 'rmemd_[a-z_]+'; } | sed -E 's/_bucket$//' | sort -u >"$dir/named"
unknown=$(comm -13 "$dir/known" "$dir/named")
[ -z "$unknown" ] || fail "no such metrics: $unknown"
ok "$(wc -l <"$dir/named") metrics are named"

cat >"$dir/prometheus.yml" <<END
global:
  scrape_interval: 200ms
  scrape_timeout: 200ms
  evaluation_interval: 1s
rule_files: [ rmemd.rules.yml ]
scrape_configs:
  - job_name: rmemd
    static_configs:
      - targets: [ "$LISTEN:$metrics_port" ]
END
prometheus --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/tsdb" \
	--web.listen-address="127.0.0.1:$prometheus_port" --log.level=warn \
	>"$dir/prometheus.log" 2>&1 &
pids+=($!)

# query EXPRESSION: the result, as JSON
query()
{
	curl -sS --max-time 20 --data-urlencode "query=$1" \
		"http://127.0.0.1:$prometheus_port/api/v1/query"
}

# has_series EXPRESSION
has_series()
{
	query "$1" 2>/dev/null | jq -e '.data.result | length > 0' >/dev/null 2>&1
}

# a client that is at work, so that rates are known
make_file "$dir/in" 3000000
client put kept "$dir/in"
mkfifo "$dir/fifo"
background coming put coming "$dir/fifo"
exec 7>"$dir/fifo"
head -c 1000000 /dev/zero >&7
poll_await 60 has_series 'up == 1' ||
	fail "Prometheus does not scrape: $(cat "$dir/prometheus.log")"
client get kept "$dir/out"
same "$dir/in" "$dir/out"
poll_await 60 has_series 'rate(rmemd_port_sent_bytes_total[1m]) > 0' || fail "no traffic is seen"

# run EXPRESSION: what Grafana fills in is filled in; prints the number of series
run()
{
	local expr=$1
	expr=${expr//\$__rate_interval/1m}
	expr=${expr//\$job/.+}
	expr=${expr//\$instance/.+}
	query "$expr" >"$dir/answer"
	jq -e '.status == "success"' "$dir/answer" >/dev/null || fail "$expr: $(cat "$dir/answer")"
	jq '.data.result | length' "$dir/answer"
}

# What a daemon without RDMA, where nothing goes wrong, does not have.
empty='port_up|_packets_total|port_retries|port_errors|port_congestion|> 0$|topk|heatmap'
n=0
with=0
while IFS= read -r expr; do
	series=$(run "$expr")
	n=$((n + 1))
	if [ "$series" -gt 0 ]; then
		with=$((with + 1))
	else
		grep -qE "$empty" <<<"$expr" || fail "no series: $expr"
	fi
done < <(jq -r '.panels[].targets[]?.expr' "$dashboard")
[ "$n" -gt 40 ] || fail "only $n queries in the dashboard"
ok "$n queries of the dashboard, $with with series"

curl -sS --max-time 20 "http://127.0.0.1:$prometheus_port/api/v1/rules" >"$dir/rules.json"
n=0
while IFS= read -r expr; do
	run "$expr" >/dev/null
	n=$((n + 1))
done < <(jq -r '.data.groups[].rules[].query' "$dir/rules.json")
[ "$n" -gt 10 ] || fail "only $n rules"
bad=$(jq -r '.data.groups[].rules[] | select(.health == "err" or .state == "firing") | .name' \
	"$dir/rules.json")
[ -z "$bad" ] || fail "rules that fail or fire: $bad"
ok "$n queries of the rules"

# a rule that fires, without the time that it waits
run 'rmemd_tenant_lent_bytes > 0.02 * rmemd_tenant_lent_limit_bytes' | grep -qx 1 ||
	fail "the tenant's quota"
exec 7>&-
process_await "$client_pid" 60 || fail "the client does not end"
server_stop
poll_await 60 has_series 'up{job="rmemd"} == 0' || fail "the end of the daemon is not seen"
ok "a daemon that is gone"
