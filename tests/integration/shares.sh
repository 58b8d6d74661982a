#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Leases that are shared between tenants.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq
one_thread_with_tsan

# as TENANT ARGUMENT...: a client of that tenant
as()
{
	local tenant=$1
	shift
	"${client_exec[@]}" timeout -k 5 $((client_limit * patience)) \
		"$RMEM" -s "$uri&tenant=$tenant" "$@"
}

config_extra='
[tenant default]
[tenant red]
[tenant blue]
'
state_keep
server_start
timeout $((120 * patience)) "$(built tests/integration/shares)" \
	"$uri&tenant=red" "$uri&tenant=blue" blue red || fail "shares: status $?"
lent_zero 20
ok "the library"

# ---- the tool ----

make_file "$dir/in" 100000
as red put thing "$dir/in"
expect_error 1 'tenant red shares no lease named "thing" with tenant blue' \
	as blue get --of red thing
expect_error 1 'there is no tenant "green" on this server' as red share thing green
as red share thing blue
as blue get --of red thing >"$dir/out"
same "$dir/in" "$dir/out"
expect_error 1 'there is no lease named "thing"' as blue share thing red
rmemctl --json leases | jq -e '.leases[0].shares == ["blue:read"]' >/dev/null ||
	fail "$(rmemctl --json leases)"
rmemctl -o wide leases | grep -q 'blue:read ' || fail "$(rmemctl -o wide leases)"
as red share -w thing blue
rmemctl --json leases | jq -e '.leases[0].shares == ["blue:read-write"]' >/dev/null ||
	fail "$(rmemctl --json leases)"
rmemctl --json tenants |
	jq -e '.tenants[] | select(.name == "blue") | .denied_shares >= 3' >/dev/null ||
	fail "$(rmemctl --json tenants)"
ok "the tool"

# a daemon that dies keeps the share
kill -KILL "$server_pid"
process_await "$server_pid" 30 || fail "the daemon is not killed"
server_restart
as blue get --of red thing >"$dir/out"
same "$dir/in" "$dir/out"
as red unshare thing blue
expect_error 1 'tenant red shares no lease named "thing"' as blue get --of red thing
ok "a restart"

as red rm thing
lent_zero 20
server_stop
