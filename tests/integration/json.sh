#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What each command of rmemctl and rmem prints with --json is what etc/rmem.schema.json says, and
# every member of the schema is printed by a command.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need curl jq

# sessions outlast the daemon
state_keep
config_extra='[tenant default]
[tenant blue]'
: >"$dir/outputs"

# printed ENTRY FILE: every JSON in the file is an output of this entry of the schema
printed()
{
	[ -s "$2" ] || fail "nothing was printed for $1"
	jq -c --arg entry "$1" '{ entry: $entry, value: . }' "$2" >>"$dir/outputs" ||
		fail "$1: $(cat "$2")"
}

# prints ENTRY COMMAND ARGUMENT...: what it prints is an output of this entry of the schema; an exit
# status above 2 is a result
prints()
{
	"${@:2}" >"$dir/one" || [ $? -gt 2 ] || fail "$*"
	printed "$1" "$dir/one"
}

# watches NAME: start a client that watches the lease; its output is in NAME.out
watches()
{
	background "$1" watch --json "$1"
	# shellcheck disable=SC2016 # a variable of jq
	poll_await 20 json_is leases --arg name "$1" \
		'.leases | any(.name == $name and (.attached | length == 1))' ||
		fail "$1 is not watched"
}

# watched NAME PATTERN: wait until the client has printed such a line
watched()
{
	poll_await 60 grep -q "$2" "$dir/$1.out" || fail "$1: no $2: $(cat "$dir/$1."*)"
}

admin_get()
{
	curl -sS --max-time 20 --unix-socket "$dir/admin.sock" "http://localhost/v1/$1"
}

make_file "$dir/in" 100000
truncate -s 100M "$dir/large"
server_start
client put below "$dir/large"
client put kept "$dir/in"
client share kept blue
watches kept
rmemctl drain --deadline 1h >/dev/null
for what in status pools devices sessions leases tenants events; do
	prints "rmemctl-$what" rmemctl --json "$what"
done
prints rmemctl-drain rmemctl --json undrain
prints rmemctl-drain rmemctl --json drain
rmemctl undrain >/dev/null
prints rmemctl-leases rmemctl --json holders --sort=-size
prints rmemctl-log-level rmemctl --json log-level
prints rmemctl-log-level rmemctl --json log-level debug
prints rmemctl-doctor rmemctl --json doctor -c "$dir/rmemd.conf"
prints admin-extents admin_get extents
prints admin-error admin_get nothing
"$RMEMCTL" -s "$dir/admin.sock" --json events --follow >"$dir/events" &
pids+=($!)
poll_await 20 grep -q '"level":"debug"' "$dir/events" || fail "no events"
kill $!
wait $! || true
sed '$!b; /}$/!d' "$dir/events" >"$dir/complete"
printed event "$dir/complete"

prints rmem-ls client ls --json
prints rmem-ls client stat --json kept
prints rmem-bench client bench --json --size 4K --region 64K --duration 50ms
prints rmem-bench client bench --json --op mixed:30 --size 4K --region 64K --rate 1000 --random \
	--duration 300ms --interval 100ms
prints rmem-doctor client doctor --json
ok "commands"

# ---- what watchers are told ----

client notify kept 7
watched kept notified
sed -i -e "s/^size = .*/size = 64M/" -e 's/^threads = .*/threads = 3/' "$dir/rmemd.conf"
prints rmemctl-reload rmemctl --json reload
watched kept wanted
kill -KILL "$server_pid"
process_await "$server_pid" 20 || fail "a killed daemon does not end"
server_restart
watched kept resumed
prints rmemctl-revoke rmemctl --json revoke kept
watched kept ended
client rm below
client put lost "$dir/in"
watches lost
kill -KILL "$server_pid"
process_await "$server_pid" 20 || fail "a killed daemon does not end"
rm -rf "${state:?}"/*
server_restart
watched lost server_lost
for name in kept lost; do
	printed rmem-watch "$dir/$name.out"
done
client put kicked "$dir/in"
watches kicked
prints rmemctl-kick rmemctl --json kick "$(rmemctl --json sessions | jq -r '.sessions[0].id')"
ok "watchers"

# ---- the schema ----

# faults OF SCHEMA [OUTPUTS]: the faults that the check finds
faults()
{
	jq -s -r --slurpfile schema "$1" --arg unseen "$unseen" \
		-f "$top_srcdir/tests/integration/json.jq" \
		"${2:-$dir/outputs}" || fail "the check ends with an error"
}

schema=$top_srcdir/etc/rmem.schema.json
unseen='^$'
json_is devices 'any(.devices[]; .can)' || unseen+='|^(device_can|device_port|knobs)\.'
json_is devices 'any(.devices[].device_port.gids[]?; true)' || unseen+='|^gid\.'
found=$(faults "$schema")
[ -z "$found" ] || fail "$found"

# finds PATTERN FILTER: the check finds this in the schema changed by the filter
finds()
{
	jq "$2" "$schema" >"$dir/changed"
	faults "$dir/changed" >"$dir/found"
	grep -qE "$1" "$dir/found" || fail "not found: $1: $(cat "$dir/found")"
	ok "$(grep -m 1 -E "$1" "$dir/found")"
}
# shellcheck disable=SC2016 # a name of the schema
def='."$defs"'
finds 'entry.bytes is not in the schema' "del($def.entry.properties.bytes)"
finds 'lease.more: no command has printed it' \
	"$def.lease.properties.more = { \"\$ref\": \"#/\$defs/count\" }"
finds 'lease.more is missing' "$def.lease.required += [\"more\"]"
finds 'rmemctl-kick.kicked.leases: [01] is not of type string' \
	"$def.\"rmemctl-kick\".properties.kicked.properties.leases = { \"type\": \"string\" }"
finds '"(tcp|rdma)" is not in the list' "$def.fabric.enum = [\"other\"]"
finds 'is out of range' "$def.id.pattern = \"^x\""
finds 'keyword maximum is not known' "$def.count.maximum = 9"
finds 'other members are allowed' "$def.seen.additionalProperties = true"
finds 'bytes has several types: .*/bytes, .*/ms$' \
	"$def.entry.properties.bytes = { \"\$ref\": \"#/\$defs/ms\" }"
server_stop
