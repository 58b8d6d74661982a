#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An administrator revokes, kicks and drains while clients are at work: the client that is meant
# gets the documented error at once, and nobody else notices.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

fence=60s # no client learns of its end by silence
grace=60s
acting=$(built tests/integration/acting)
declare -A client_pids

# works NAME: start a client at work on a lease with this name
works()
{
	: >"$dir/$1.out"
	"$acting" "$uri" "$1" >"$dir/$1.out" 2>&1 &
	client_pids[$1]=$!
	pids+=($!)
	said "$1" ready
}

# said NAME PATTERN: wait until the client has said a line that matches
said()
{
	poll_await 60 grep -qE "^$2" "$dir/$1.out" ||
		fail "$1 does not say '$2': $(cat "$dir/$1.out")"
	ok "$1: $(grep -m 1 -E "^$2" "$dir/$1.out")"
}

# ends NAME: the client has ended, without another error
ends()
{
	process_await "${client_pids[$1]}" 60 || fail "$1 does not end"
	[ "$process_status" -eq 0 ] || fail "$1: $(cat "$dir/$1.out")"
}

# undisturbed NAME: the client goes on, and has noticed nothing
undisturbed()
{
	kill -0 "${client_pids[$1]}" || fail "$1 has ended: $(cat "$dir/$1.out")"
	[ "$(cat "$dir/$1.out")" = "${2:-ready}" ] || fail "$1 has noticed: $(cat "$dir/$1.out")"
}

# session_of NAME: the session of the client that made the lease
session_of()
{
	rmemctl --json sessions |
		jq -r --arg pid "${client_pids[$1]}" \
			'.sessions[] | select(.client | contains("[" + $pid + "]")).id'
}

# server_ends: the drained daemon ends by itself, with status 0
server_ends()
{
	process_await "$server_pid" 60 || fail "the daemon does not end"
	[ "$process_status" -eq 0 ] || fail "the daemon ends with $process_status"
}

server_start
works other
make_file "$dir/in" 1000

works revoked
rmemctl revoke revoked
said revoked 'ended ESTALE .*(revoked the lease|ended the lease)'
said revoked 'ping$'
ends revoked
undisturbed other

works kicked
id=$(session_of kicked)
rmemctl kick "$id" | grep "^ended session $id of tenant default: acting\[" ||
	fail "kick does not say what it ended"
said kicked 'ended ESTALE .*'
said kicked "ping ESTALE .*the server's administrator ended the session"
ends kicked
expect_error 1 "rmemd answers 404: there is no session $id" rmemctl kick "$id"
undisturbed other
# its lease has a name, and stays
client ls | grep -q kicked || fail "the kicked client's named lease is gone"
client rm kicked

rmemctl drain | grep '^draining: .*, leases: 1, .*, deadline: none$' ||
	fail "drain: $(rmemctl drain)"
said other draining
said other 'alloc ESHUTDOWN .*the server is being drained'
expect_error 1 'the server is being drained, and grants nothing new: ask another one' client put \
	new "$dir/in"
rmemctl status | grep -q '^draining   for ' || fail "the status does not show the drain"
rmemctl undrain | grep -q '^serving$' || fail "undrain"
said other serving
client put new "$dir/in"
client rm new
[ "$(status_get '.counters.refused.draining, .counters.requests_refused.draining' | xargs)" = \
	'1 2' ] ||
	fail "$(status_get .counters)"
ok "what was refused is counted"

# the last lease ends, and with it the daemon; the client has not lost a thing
works last
rmemctl drain >"$dir/out"
said last draining
kill -TERM "${client_pids[other]}"
said other 'done'
ends other
kill -0 "$server_pid" || fail "the daemon ends with a lease"
kill -TERM "${client_pids[last]}"
server_ends
ends last
ok "drained"

# a deadline
server_restart
works left
rmemctl --json drain --deadline 1s |
	jq -e '.draining.left_ms <= 1000 and .leases == 1' >"$dir/out" ||
	fail "drain with a deadline: $(cat "$dir/out")"
said left 'ended ESTALE .*(revoked the lease|ended the lease)'
server_ends
ends left
ok "drained at its deadline"
