#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The output of rmemctl while memory is lent, and after all of it was freed.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq curl

server_start
resources="status pools devices sessions leases tenants events"

# every resource as a table and as JSON; rmemctl and curl get equal members
members='[paths(scalars) | map(strings) | join(".")] | unique'
for resource in $resources; do
	rmemctl "$resource" >"$dir/table"
	[ -s "$dir/table" ] || fail "rmemctl $resource printed nothing"
	rmemctl --json "$resource" | jq -e . >"$dir/json" ||
		fail "rmemctl --json $resource is no JSON"
	curl -sS --fail --max-time 20 --unix-socket "$dir/admin.sock" \
		"http://localhost/v1/$resource" >"$dir/curl" || fail "curl of $resource"
	diff <(jq "$members" "$dir/json") <(jq "$members" "$dir/curl") ||
		fail "curl and rmemctl disagree about $resource"
	[ "$(jq "$members | length" "$dir/json")" -gt 0 ] || [[ $resource =~ sessions|leases ]] ||
		fail "the JSON of $resource has no members"
	ok "$resource"
done

[ "$(status_get '.control | join(" ")')" = "\"$LISTEN:$port\"" ] ||
	fail "the control port: $(status_get .control)"

code=$(curl -s -o "$dir/json" -w '%{http_code}' --max-time 20 \
	--unix-socket "$dir/admin.sock" http://localhost/v1/nothing)
[ "$code" = 404 ] || fail "an unknown path gave $code"
jq -e .error "$dir/json" >/dev/null || fail "an unknown path has no JSON error"
code=$(curl -s -o "$dir/json" -w '%{http_code}' --max-time 20 -X DELETE \
	--unix-socket "$dir/admin.sock" http://localhost/v1/status)
[ "$code" = 405 ] || fail "DELETE gave $code"
ok "errors over HTTP"

# a named lease, and a session that stays active: it reads from an open pipe
make_file "$dir/in" 100000
client put kept "$dir/in"
mkfifo "$dir/fifo"
client put coming "$dir/fifo" &
put_pid=$!
pids+=("$put_pid")
exec 7>"$dir/fifo"
head -c 1000000 /dev/zero >&7
status_await '.sessions.active == 1' 20 || fail "the session does not show"

rmemctl sessions | grep -q 'active' || fail "no active session in the table"
rmemctl --json sessions | jq -e '.sessions | length == 1 and .[0].state == "active"' >/dev/null ||
	fail "sessions: $(rmemctl --json sessions)"
keys=$(rmemctl --json sessions | jq '.sessions[0].keys')
[ "$keys" -ge 1 ] || fail "a session with a lease has $keys keys"
[ "$(status_get .sessions.keys)" -eq "$keys" ] || fail "sessions.keys of the status"
for command in status "--json status" metrics "--json leases --sort size" "--json events"; do
	[ -w /dev/full ] || break
	# shellcheck disable=SC2086 # several arguments
	! rmemctl $command >/dev/full 2>"$dir/err" || fail "$command: no error of a full device"
	grep -q 'writing the output: No space left' "$dir/err" || fail "$(cat "$dir/err")"
done
rmemctl leases | grep -q kept || fail "the named lease is not in the table"
rmemctl --json leases |
	jq -e '.leases | any(.name == "kept" and .bytes == 100000)' >/dev/null ||
	fail "leases: $(rmemctl --json leases)"
[ "$(rmemctl leases -o name --name 'ke*')" = "$(rmemctl --json leases |
	jq -r '.leases[] | select(.name == "kept") | .id')" ] || fail "leases by name"
[ -z "$(rmemctl leases -o name --older 1h)" ] || fail "a lease is older than an hour"
[ -z "$(rmemctl sessions -o name --tenant nobody)" ] || fail "a session of nobody"
session=$(rmemctl sessions -o name)
rmemctl leases -o json --session "$session" | jq -e ".leases | length == 1 and
	.[0].attached[0].session == \"$session\" and .[0].creator.session == \"$session\" and
	.[0].attached[0].client == .[0].creator.client" >/dev/null ||
	fail "the lease of the session: $(rmemctl --json leases)"
rmemctl holders -o wide | grep -qE "$session .*active .*read-write .*rmem\[" ||
	fail "holders: $(rmemctl holders -o wide)"
rmemctl --json leases --sort=-size |
	jq -e '[.leases[].bytes] | . == (sort | reverse)' >/dev/null || fail "leases by size"
expect_error 2 "rmemctl: leases: --sort: unknown column 'byts'; did you mean 'bytes'" \
	rmemctl leases --sort byts
expect_error 2 "rmemctl: sessions: --session: 'x' is not a number" rmemctl sessions --session x
rmemctl events --name 'session-*' | grep -q "info session-opened: rmem.* \[session=$session " ||
	fail "events: $(rmemctl events)"
"$RMEMCTL" -s "$dir/admin.sock" events --follow --json >"$dir/events" 2>"$dir/events.err" 7>&- &
follow_pid=$!
pids+=("$follow_pid")
poll_await 20 grep -q "session-opened.*$session" "$dir/events" || fail "$(cat "$dir/events.err")"
lent=$(status_get .memory.lent_bytes)
[ "$lent" -ge 100000 ] || fail "lent_bytes is $lent"
rmemctl pools | grep -q small || fail "the pool is not in the table"
exec 7>&-
process_await "$put_pid" 30 || fail "put does not end"
[ "$process_status" -eq 0 ] || fail "put ended with $process_status"
ok "sessions and leases in use"

# ---- acting ----

id=$(rmemctl --json leases | jq -r '.leases[] | select(.name == "coming") | .id')
rmemctl revoke "$id" | grep -q "^revoked lease $id (coming) of tenant default: " ||
	fail "revoke does not say what it revoked"
log_await 'lease-revoked: "coming"' || fail "no line about the revoked lease"
log_await "admin-acts: user $(id -u) .$(id -un)., pid [0-9]*: /v1/revoke lease=$id" ||
	fail "no line about who revoked it"
expect_error 1 "rmemd answers 404: there is no lease $id" rmemctl revoke "$id"
expect_error 2 'revoke: it takes the number or name of one lease; see rmemctl revoke --help$' \
	rmemctl revoke
client put 42 "$dir/in"
expect_error 1 'rmemd answers 404: there is no lease 42' rmemctl revoke 42
expect_error 1 'rmemd answers 404: there is no tenant blue' rmemctl revoke --tenant blue 42
rmemctl --json revoke --tenant default 42 | jq -e '.revoked.name == "42"' >"$dir/out" ||
	fail "revoke by name: $(cat "$dir/out")"
expect_error 1 'rmemd answers 404: no tenant has a lease with the name "a&b [?]"' \
	rmemctl revoke 'a&b ?'
expect_error 2 'the name of the lease is empty' rmemctl revoke ''
ok "revoke"

# ---- reload ----

# reload_says STATUS: rmemctl reload ends with it, and prints the lines of stdin
reload_says()
{
	local want=$1 status=0
	rmemctl reload >"$dir/out" || status=$?
	diff - "$dir/out" || fail "reload"
	[ "$status" -eq "$want" ] || fail "reload ends with $status, not $want"
}
cp "$dir/rmemd.conf" "$dir/old.conf"
echo 'nothing has changed' | reload_says 0
cat >>"$dir/rmemd.conf" <<-END
	[limits]
	sessions = 77
	[tenant blue]
	bytes = 1536M
	[pool more]
	size = 2M
	page_size = base
END
sed -i "s/^size = 192M/size = 193M/" "$dir/rmemd.conf"
reload_says 0 <<-END
	[limits] sessions: 1024 -> 77
	[tenant default]: removed
	[tenant blue]: added
	[pool small] size: 192M -> 193M
	[pool more]: added
END
echo 'nothing has changed' | reload_says 0
# as long as the file and the daemon differ it says so
sed -i -e "s/^socket = .*/&x/" -e 's/^threads = .*/threads = 7/' -e 's/^size = 193M/&\nnode = 0/' \
	-e 's/sessions = 77/sessions = 78/' "$dir/rmemd.conf"
reload_says 3 <<-END
	[limits] sessions: 77 -> 78
	needs a restart: [tcp] threads: 2 (running) -> 7 (in the file)
	needs a restart: [admin] socket: $dir/admin.sock (running) -> $dir/admin.sockx (in the file)
	needs a restart: [pool small] node: any (running) -> 0 (in the file)
END
status=0
rmemctl --json reload >"$dir/out" || status=$?
[ "$status" -eq 3 ] || fail "reload --json ends with $status"
jq -e '.changed == [] and .changed_more == 0 and .needs_restart_more == 0 and .needs_restart[0] ==
	{ section: "tcp", key: "threads", old: "2", new: "7" }' "$dir/out" >/dev/null ||
	fail "$(cat "$dir/out")"
# a configuration that is refused changes nothing
echo 'size = much' >>"$dir/rmemd.conf"
expect_error 1 "rmemd answers 409: $dir/rmemd.conf:[0-9]+: 'size' is already in line [0-9]+" \
	rmemctl reload
cp "$dir/old.conf" "$dir/rmemd.conf"
reload_says 0 <<-END
	[limits] sessions: 78 -> 1024
	[tenant blue]: removed
	[tenant default]: added
	[pool small] size: 193M -> 192M
	[pool more]: removed
END
ok "reload"

# ---- the level of the log ----

[ "$(rmemctl log-level)" = info ] || fail "log-level: $(rmemctl log-level)"
text="log-level: 'warn' is not one of error, warning, notice, info, debug"
expect_error 2 "$text; see rmemctl log-level --help$" rmemctl log-level warn
[ "$(rmemctl log-level error)" = 'error until the next reload or restart, then info' ] ||
	fail "log-level: $(rmemctl log-level)"
log_mark
client put quiet "$dir/in"
# what an administrator does is logged at any level, and what clients do is not
rmemctl revoke quiet
log_await "admin-acts: user $(id -u) .*: /v1/revoke name=quiet" || fail "the act is not logged"
! tail -n "+$log_from" "$server_log" | grep -v '^admin-acts: ' || fail "the level has no effect"
rmemctl log-level debug
log_await "admin-acts: user $(id -u) .*: /v1/log-level level=debug" ||
	fail "the new level is not logged"
client put loud "$dir/in"
log_await '^lease-granted: ' || fail "no line for debugging"
client rm loud
echo '[log] level: debug -> info' | reload_says 0
json_is log-level '. == { level: "info", configured: "info" }' || fail "$(rmemctl --json log-level)"
ok "log-level"

# more acts than the limit of other lines in its ten seconds
log_mark
for i in {1..120}; do
	curl -s --unix-socket "$dir/admin.sock" -X POST "http://rmemd/v1/kick?session=$i" \
		>"$dir/out"
done
log_await 'admin-failed: .*: /v1/kick session=120: ' || fail "the last act is not logged"
[ "$(tail -n "+$log_from" "$server_log" | grep -c '^admin-acts: ')" -eq 120 ] ||
	fail "acts are missing in the log"
acts=$(rmemctl --json events -n admin-acts |
	jq '[.events[] | select(.text | contains("/v1/kick session="))] | length')
[ "$acts" -ge 120 ] || fail "acts are missing in the events"
ok "many acts"

# as_user GROUP ARGUMENT...: rmemctl of another user than the daemon's
as_user()
{
	local group=$1
	shift
	setpriv --reuid=65534 --regid=65534 --groups="$group" -- "$(built src/rmemctl/rmemctl)" \
		-s "$dir/admin.sock" "$@"
}
if [ "$(id -u)" = 0 ] && "$(built src/rmemctl/rmemctl)" --version >"$dir/out" &&
	chmod 711 "$dir" && as_user 0 --version >"$dir/out" 2>&1; then
	as_user "$(id -g)" status >"$dir/out"
	expect_error 1 'rmemd answers 403: user 65534 may not act: .*\[admin\] act_group' \
		as_user "$(id -g)" revoke "$id"
	chmod 666 "$dir/admin.sock"
	expect_error 1 'rmemd answers 403: user 65534 may neither look nor act: .* view_group may' \
		as_user 65534 status
	refused='.counters.admin_acts_refused, .counters.admin_views_refused'
	[ "$(status_get "$refused" | xargs)" = "1 1" ] ||
		fail "$(status_get .counters)"
	ok "users and groups"
fi

client rm kept
status_await '.sessions.active == 0' 20 || fail "a session is left"
lent_zero 20
[ "$(status_get .sessions.keys)" -eq 0 ] || fail "a key is left"
[ "$(rmemctl --json leases | jq '.leases | length')" = 0 ] || fail "a lease is left"

# ---- following ----

poll_await 20 grep -q '"event":"reloaded"' "$dir/events" || fail "no event of the reload"
for event in lease-revoked session-ended admin-acts; do
	grep -q "\"event\":\"$event\"" "$dir/events" || fail "no event $event"
done
# the daemon is restarted: its events follow
sed -i 's/^\(socket = .*\)x$/\1/' "$dir/rmemd.conf"
lines=$(wc -l <"$dir/events")
sed -i '/^error reload-failed/d' "$server_log"
server_stop
server_restart
log_mark
ready_follows()
{
	tail -n "+$((lines + 1))" "$dir/events" | jq -e 'select(.event == "ready")' >/dev/null
}
poll_await 20 ready_follows ||
	fail "no event of the restart: $(cat "$dir/events.err")"
kill "$follow_pid"
process_await "$follow_pid" 20 || fail "events --follow goes on after SIGTERM"
ok "events"
server_stop

expect_error 1 'admin.sock' rmemctl status
expect_error 2 '^rmemctl: unknown option --nonsense; see rmemctl --help$' rmemctl --nonsense
expect_error 2 '^rmemctl: unknown option -x; ' rmemctl -xh
expect_error 2 '^rmemctl: -s needs a value; ' rmemctl -s
expect_error 2 '^rmemctl: --json=yes: the option takes no value; ' rmemctl --json=yes
expect_error 2 '^rmemctl: .*nonsense' rmemctl nonsense
expect_error 2 '^rmemctl: pools: it takes no argument; see rmemctl pools --help$' \
	rmemctl pools devices
expect_error 2 '^rmemctl: pools: unknown option --nonsense; ' rmemctl pools --nonsense
rmemctl pools --help | grep -q '^usage: rmemctl .* pools [[]--sort COLUMN[]]$' ||
	fail "$(rmemctl pools --help)"
expect_error 2 "^rmemctl: --output: 'xml' is not wide, json or name; " rmemctl -o xml pools
expect_error 2 '^rmemctl: status: --socket: the path is too long' \
	"$RMEMCTL" -s "$(printf '/%.0s' {1..200})" status
expect_error 2 '^rmemctl: status: --socket: the path is empty' "$RMEMCTL" -s "" status
