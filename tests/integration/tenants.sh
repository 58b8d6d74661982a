#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Tenants: isolation, quotas, reload.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq

# as TENANT ARGUMENT...: a client of that tenant
as()
{
	local tenant=$1
	shift
	"${client_exec[@]}" timeout -k 5 $((client_limit * patience)) \
		"$RMEM" -s "$uri&tenant=$tenant" "$@"
}

# tenant_await NAME FILTER: wait until the tenant satisfies a filter of jq
tenant_await()
{
	poll_await 20 json_is tenants --arg name "$1" ".tenants[] | select(.name == \$name) | $2" ||
		fail "tenant $1 does not satisfy '$2': $(rmemctl tenants)"
}

# reload SCRIPT: change the configuration by a sed script, and reload it
reload()
{
	sed -i "$1" "$dir/rmemd.conf"
	log_mark
	kill -HUP "$server_pid"
	log_await '^reloaded: ' || fail "no reload"
}

config_extra='
[tenant red]
bytes = 4M
lease_min = 4K
lease_max = 2M
leases = 3
[tenant narrow]
channels = 3
[tenant blue]
sessions = 1
channels = 2
ttl_max = 1h
'
grace=1s
server_start

# ---- the tenant of a client ----

expect_error 1 'there is no tenant "default" on this server' client ls
expect_error 1 'there is no tenant "green" on this server' as green ls
expect_error 2 "a tenant's name is of letters" as 'a/b' ls

# ---- isolation ----

make_file "$dir/red" 1000000
make_file "$dir/blue" 50000
as red put data "$dir/red"
expect_error 1 'there is no lease named "data"' as blue get data
expect_error 1 'there is no lease named "data"' as blue rm data
[ -z "$(as blue ls)" ] || fail "blue sees red's names"
as blue put data "$dir/blue"
as red get data >"$dir/out"
same "$dir/red" "$dir/out"
as blue get data >"$dir/out"
same "$dir/blue" "$dir/out"
ok "one name, two tenants"

# ---- quotas ----

make_file "$dir/long" 2100000
expect_error 1 \
	'longer than the 2 MiB that tenant red may have in one: .*raise \[tenant red\] lease_max' \
	as red put more "$dir/long"
expect_error 1 'shorter than the 4 KiB that tenant red must have' \
	as red put more <(head -c 100 /dev/zero)
make_file "$dir/big" 2000000
as red put more "$dir/big"
expect_error 1 'tenant red has .* of memory and may have 4 MiB, .*raise \[tenant red\] bytes' \
	as red put yet-more "$dir/big"
expect_error 1 'tenant red has .* of memory and may have 4 MiB' as red put data "$dir/big"
as red put little "$dir/blue"
expect_error 1 'tenant red has 3 leases and may have 3, 1 more was asked for' \
	as red put yet-more "$dir/blue"
tenant_await red '.refused >= 5 and .leases == 3 and .leases_max == 3 and .sessions == 0'
tenant_await blue '.refused == 0 and .leases == 1 and .ttl_max_ms == 3600000'
rmemctl -o wide tenants | grep -qE '^red +open +0 +none +0 +none +3 +3 ' ||
	fail "$(rmemctl tenants)"
as blue ls --json | jq -e '.[0].ttl_ms > 3500000 and .[0].ttl_ms <= 3600000' >/dev/null ||
	fail "a lease got no time to live with its name"
ok "quotas"

# sessions
mkfifo "$dir/fifo"
as blue put held "$dir/fifo" &
held_pid=$!
pids+=("$held_pid")
exec 7>"$dir/fifo"
head -c 1000000 /dev/zero >&7
tenant_await blue '.sessions == 1 and .channels >= 1 and .keys >= 1'
expect_error 1 'tenant blue has 1 sessions and may have 1' as blue ls
ok "sessions"

# channels: one of the session itself, and those of its queue
as 'narrow&channels=2' put data "$dir/blue"
text='channel 3 of 3: tenant narrow has 3 channels and may have 3, 1 more was asked for'
expect_error 1 "$text: .*raise \[tenant narrow\] channels" \
	as 'narrow&channels=3' put more "$dir/blue"
# the refused client has no channel left, and nothing is stored
tenant_await narrow '.refused == 1 and .leases == 1 and .sessions + .channels + .keys == 0'
mkfifo "$dir/narrow-fifo"
as narrow put held "$dir/narrow-fifo" &
narrow_pid=$!
pids+=("$narrow_pid")
exec 8>"$dir/narrow-fifo"
head -c 1000000 /dev/zero >&8
tenant_await narrow '.sessions == 1 and .channels == 2'
# a client that needs one channel gets the last one
as narrow ls
expect_error 1 'tenant narrow has 3 channels and may have 3' as narrow get data
ok "channels"

# ---- reload ----

reload "/^\[tenant blue\]/,\$d"
log_await 'tenant-leaving: .*1 sessions, 2 leases.*tenant=blue' || fail "no line about blue"
tenant_await blue '.state == "leaving"'
expect_error 1 'there is no tenant "blue" on this server' as blue ls
printf '[tenant green]\n' >>"$dir/rmemd.conf"
reload 's/^bytes = 4M/bytes = 64M/; s/^leases = 3/leases = 4/'
as green ls
as red put yet-more "$dir/big"
tenant_await red '.bytes_max == 67108864 and .leases == 4'
printf '[tenant blue]\nttl_max = 2s\n' >>"$dir/rmemd.conf"
reload 's/^lease_min = 4K/lease_min = 64K/; s/^lease_max = 2M/lease_max = 1M/
	s/^leases = 4/leases = 5/'
expect_error 1 'longer than the 1 MiB that tenant red' as red put short "$dir/big"
expect_error 1 'shorter than the 64 KiB that tenant red' as red put short "$dir/blue"
as red put short "$dir/red"
as red get more >"$dir/out"
same "$dir/big" "$dir/out"
# a second session: blue has no limit of sessions any more
as blue ls
reload 's/^channels = 3/channels = 4/'
as narrow get data >"$dir/out"
same "$dir/blue" "$dir/out"
reload 's/^channels = 4/channels = 1/'
expect_error 1 'tenant narrow has 2 channels and may have 1' as narrow ls
# a session keeps the channels that it has
head -c 3000000 /dev/zero >&8
exec 8>&-
process_await "$narrow_pid" 30 || fail "put does not end"
[ "$process_status" -eq 0 ] || fail "the put of held fails: $process_status"
reload 's/^channels = 1/channels = 2/'
as narrow rm data held
head -c 3000000 /dev/zero >&7
exec 7>&-
process_await "$held_pid" 30 || fail "put does not end"
[ "$process_status" -eq 0 ] || fail "the put of held fails: $process_status"
as blue get data >"$dir/out"
same "$dir/blue" "$dir/out"
ok "reload"

# a tenant without a section is removed with its last lease
as blue rm data
reload "/^\[tenant blue\]/,\$d"
poll_await 20 json_is tenants 'all(.tenants[]; .name != "blue")' ||
	fail "blue is not removed: $(rmemctl tenants)"
ok "removed"

# ---- rights ----

printf '[tenant green]\naccess = read-write\nnames = job-*\npools = small\n' >"$dir/green"
sed -i '/^\[tenant green\]/d' "$dir/rmemd.conf"
cat "$dir/green" >>"$dir/rmemd.conf"
reload ''
as green put job-1 "$dir/blue"
expect_error 1 'tenant green may not name a lease "data": \[tenant green\] names allows other' \
	as green put data "$dir/blue"
make_file "$dir/huge" 250000000
expect_error 1 'no room for .*; \[tenant green\] pools allows no others' \
	as green put job-2 "$dir/huge"
rm "$dir/huge"
reload 's/^access = read-write/access = read-only/'
as green get job-1 >"$dir/out"
same "$dir/blue" "$dir/out"
[ "$(as green ls)" = job-1 ] || fail "green does not see its lease"
expect_error 1 \
	'tenant green may read leases and change nothing: \[tenant green\] access = read-only' \
	as green rm job-1
expect_error 1 'tenant green may read leases' as green put job-3 "$dir/blue"
tenant_await green '.access == "read-only" and .denied_names == 1 and .denied_pools == 1
	and .denied_access == 2'
reload 's/^access = read-only/access = read-write/; s/^names = job-\*//'
as green put data "$dir/blue"
as green rm job-1 data
ok "rights"

as red rm data more yet-more little short
lent_zero 20
json_is tenants 'all(.tenants[]; .lent_bytes + .leases + .sessions + .channels + .keys == 0)' ||
	fail "something is left: $(rmemctl tenants)"
server_stop
