#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rmemctl top: lines, and a terminal, which it gives back however it ends; the traffic that it
# shows.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq script

server_start
make_file "$dir/in" 100000
client put kept "$dir/in"
client get kept "$dir/out"

# ---- traffic ----

# of keys that are dead by now
if [ "$FABRIC" = tcp ]; then
	rmemctl --json leases | jq -e '.leases[0] | .tcp_bytes >= 200000 and .tcp_operations >= 2' \
		>/dev/null || fail "traffic of the lease: $(rmemctl --json leases)"
	ok "traffic of a lease"
fi

# of a session that is at work
background bench bench --op write --size 4K --duration 60s
bench_pid=$client_pid
working()
{
	rmemctl --json sessions | jq -e '.sessions[0].tcp_operations > 100' >/dev/null
}
[ "$FABRIC" != tcp ] || poll_await 20 working || fail "traffic of the session"

# ---- lines ----

rmemctl top -b -n 2 -d 300ms sessions >"$dir/top"
[ "$(grep -c '^SESSION ' "$dir/top")" = 2 ] || fail "not two pictures: $(cat "$dir/top")"
id=$(rmemctl sessions -o name)
tail -n 1 "$dir/top" | grep -q "^$id  default " || fail "no session: $(cat "$dir/top")"
if [ "$FABRIC" = tcp ]; then
	tail -n 1 "$dir/top" | awk '{ exit !($6 > 0) }' || fail "no operations: $(cat "$dir/top")"
fi
rmemctl top -b -n 1 --sort +age >"$dir/top"
grep -q '^leases: 2, by AGE, the smallest first' "$dir/top" || fail "$(cat "$dir/top")"
tail -n 1 "$dir/top" | grep -q 'kept$' || fail "the oldest is not the last: $(cat "$dir/top")"
rmemctl top -b -n 2 -d 300ms tenants >"$dir/top"
grep -q '^default ' "$dir/top" || fail "no tenant: $(cat "$dir/top")"
expect_error 2 "rmemctl: top: this is no terminal: -b prints lines; see rmemctl top --help" \
	rmemctl top
expect_error 2 "rmemctl: top: 'x' is not leases, sessions or tenants" rmemctl top -b x
expect_error 2 "rmemctl: top: --sort: unknown column 'x'" rmemctl top -b --sort x
ok "lines"

# ---- a terminal ----

begin=$'\033[?1049h' end=$'\033[?1049l'

# terminal COMMAND: run a command line in a terminal, with the keys from stdin
terminal()
{
	TERM=xterm timeout $((20 * patience)) script -qec "$1" /dev/null >"$dir/screen"
}
# terminal_silent COMMANDS: the same for shell commands, while no key is pressed.  `script` does not
# end before its standard input does.
mkfifo "$dir/keys"
terminal_silent()
{
	sleep 60 >"$dir/keys" &
	terminal "sh -c '$1; status=\$?; kill $!; exit \$status'" <"$dir/keys"
}
# given_back: the last thing that the terminal got ends what the first began
given_back()
{
	grep -qF "$begin" "$dir/screen" || fail "no screen: $(cat -v "$dir/screen")"
	tail -c 40 "$dir/screen" | grep -qF "$end" ||
		fail "not given back: $(tail -c 200 "$dir/screen" | cat -v)"
}
top="$RMEMCTL -s $dir/admin.sock top -d 200ms"
keys=(2PR '<3' h $'x\tw+-MT')
texts=('sessions: 1, by OPS/s, the smallest first' 'tenants: 1, by LENT' 'Keys of rmemctl top'
	'leases: 2, by AGE')
{
	for i in "${!keys[@]}"; do
		printf %s "${keys[i]}"
		poll_await 10 grep -qF "${texts[i]}" "$dir/screen" || break
	done
	printf q
} | terminal "$top" || fail "top ended with $?"
given_back
for text in "${texts[@]}"; do
	grep -qF "$text" "$dir/screen" || fail "no '$text' on the screen"
done
# by a signal
drawn="until grep -q leases: $dir/screen; do sleep 0.1; done"
killed="$top </dev/tty & $drawn; kill -TERM \$!; wait \$!; echo status \$?"
terminal_silent "stty -a >$dir/before; $killed; stty -a >$dir/after"
given_back_text=$(cat -v "$dir/screen")
[[ $given_back_text == *'[?1049l'*status* ]] || fail "not given back at SIGTERM: $given_back_text"
cmp "$dir/before" "$dir/after" || fail "the terminal is not as it was"
# by an error: the daemon ends
kill "$bench_pid"
process_await "$bench_pid" 20 || fail "bench does not end"
terminal_silent "$top" &
screen_pid=$!
pids+=("$screen_pid")
poll_await 10 grep -qF 'leases: ' "$dir/screen" || fail "no screen"
server_stop
wait "$screen_pid" && fail "top does not end with the daemon"
grep -q 'no rmemd serves' "$dir/screen" || fail "no error: $(tail -c 300 "$dir/screen" | cat -v)"
ok "terminal"
