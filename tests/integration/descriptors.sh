#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A daemon that may open few descriptors logs how many sessions and channels these are enough for,
# and keeps some for control connections.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq prlimit

limit=600
netns_exec=(prlimit "--nofile=100:$limit")
server_start
text="^descriptors-limited: $limit descriptors may be open, which is enough for ([0-9]+) sessions"
text+=" and ([0-9]+) channels over TCP, but \[limits\] allow 1024 and 131072: raise LimitNOFILE"
log_await "$text" ||
	fail "the daemon does not say what fits: $(cat "$server_log")"
sessions=${BASH_REMATCH[1]}
channels=${BASH_REMATCH[2]}
ok "$sessions sessions and $channels channels of $limit descriptors"
[ "$(awk '/^Max open files/ { print $4 }' "/proc/$server_pid/limits")" -eq "$limit" ] ||
	fail "the soft limit was not raised"

# more channels than fit
names=()
for i in {1..4}; do
	background "bench$i" bench --op read --duration 60s --channels 64 --depth 64 --region 1M
	names+=("bench$i")
done
refused()
{
	json_is tenants '.tenants[0].refused > 0'
}
poll_await 30 refused || fail "no channel was refused"
open=$(find "/proc/$server_pid/fd" -mindepth 1 | wc -l)
ok "$open descriptors are open"
[ "$open" -lt "$limit" ] || fail "no descriptor is left"
# the next client has a session
json_is status '.counters.connections_refused == 0' || fail "a control connection was refused"
if grep '^accept-failed' "$server_log"; then
	fail "a control connection found no descriptor"
fi
for name in "${names[@]}"; do
	ok "$name: $(cat "$dir/$name.err")"
done
