#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Where the log goes, and how its lines begin there.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1

stamp='^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z '
ports_choose
server_config

# log_of TARGET [ARGUMENT...]: start and stop a daemon with this [log] target, and reload a broken
# configuration, which is an error; its log is in $dir/log
log_of()
{
	local pid
	sed -i "s/^target = .*/target = $1/" "$dir/rmemd.conf"
	# now: the background process does that too late for the first look
	: >"$dir/log"
	"$RMEMD" --config "$dir/rmemd.conf" "${@:2}" 2>"$dir/log" &
	pid=$!
	pids+=("$pid")
	poll_await 60 grep -q 'ready: listening' "$dir/log" ||
		fail "it is not ready: $(cat "$dir/log")"
	cp "$dir/rmemd.conf" "$dir/good.conf"
	echo '[nothing]' >>"$dir/rmemd.conf"
	kill -HUP "$pid"
	poll_await 60 grep -q 'reload-failed' "$dir/log" || fail "no error: $(cat "$dir/log")"
	mv "$dir/good.conf" "$dir/rmemd.conf"
	kill -TERM "$pid"
	process_await "$pid" 30 || fail "it does not stop"
	[ "$process_status" -eq 0 ] || fail "status $process_status"
}

# all PATTERN: every line matches
all()
{
	[ -s "$dir/log" ] || fail "there are no lines"
	! grep -vE "$1" "$dir/log" || fail "these lines do not match $1"
}

has()
{
	grep -qE "$1" "$dir/log" || fail "no line matches $1: $(cat "$dir/log")"
}

unset JOURNAL_STREAM
before=$(date -u +%Y-%m-%dT%H:%M)
for target in auto stderr; do
	log_of "$target"
	all "$stamp(error|warning|notice|info) [a-z-]+: "
	has "${stamp}notice ready: listening on"
	has "${stamp}info pool-ready: .*\\[pool=small\\]$"
	has "${stamp}error reload-failed: .*nothing"
done
# the time is that of now
[[ ! $(head -n 1 "$dir/log") < $before ]] || fail "$(head -n 1 "$dir/log") is before $before"
ok "time and level"

log_of plain
all '^(error )?[a-z-]+: '
has '^error reload-failed: '
has '^ready: '
ok "plain"

# the option counts, not the configuration
log_of stderr --log-target plain
has '^ready: '
log_of plain --log-target=stderr
has "${stamp}notice ready: "
ok "--log-target"

# a file stands for the stream of the journal
JOURNAL_STREAM=$(stat -c %d:%i "$dir/log")
export JOURNAL_STREAM
log_of stderr
all '^<[3-6]>[a-z-]+: '
has '^<3>reload-failed: '
has '^<5>ready: '
has '^<6>pool-ready: '
ok "the journal's stream"

# an error before the configuration is known
expect_error 78 '^error start-failed: ' "$RMEMD" --log-target plain --config "$dir/none.conf"
unset JOURNAL_STREAM
expect_error 78 "${stamp}error start-failed: " "$RMEMD" --config "$dir/none.conf"

# a pipe that nobody reads, and that is full: the daemon serves and stops as ever
unset JOURNAL_STREAM
mkfifo "$dir/pipe"
exec {reader}<>"$dir/pipe"
# pipe_await PATTERN: read the log until a line matches, which is then in `line`
pipe_await()
{
	until IFS= read -r -t $((60 * patience)) -u "$reader" line && [[ $line =~ $1 ]]; do
		[ -n "$line" ] || fail "no line in the pipe matches $1"
	done
}
sed -i 's/^target = .*/target = plain/' "$dir/rmemd.conf"
"$RMEMD" --config "$dir/rmemd.conf" 2>"$dir/pipe" &
server_pid=$!
pids+=("$server_pid")
uri="rmem://$LISTEN:$port?fabric=$FABRIC"
pipe_await ^ready:
background ping ping -i 10ms
status_await '.sessions.active == 1' 60 || fail "no session: $(cat "$dir/ping.err")"
# no room for one byte more
dd if=/dev/zero of="$dir/pipe" bs=4096 oflag=nonblock 2>/dev/null || true
for _ in {1..5}; do
	rmemctl reload >/dev/null || fail "no reload"
done
dropped=$(status_get .counters.log_lines_dropped)
[ "$dropped" -ge 5 ] || fail "$dropped lines were dropped"
# each look may find more
shown=$(rmemctl status | sed -n 's/^log  *\([0-9]*\) lines dropped, as nobody read them$/\1/p')
[ "${shown:-0}" -ge "$dropped" ] || fail "$(rmemctl status)"
metric=$(rmemctl metrics | sed -n 's/^rmemd_log_lines_dropped_total //p')
[ "${metric:-0}" -ge "$dropped" ] || fail "the metric is '$metric', after $dropped"
status_await '.sessions.active == 1 and .counters.sessions_fenced == 0' 1 || fail "it was fenced"
ok "a full pipe"

dd if="$dir/pipe" of=/dev/null bs=65536 count=1 2>/dev/null
pipe_await 'log-dropped: '
[ "$line" = "log-dropped: $dropped lines were dropped, as nobody read them" ] || fail "$line"
ok "$line"

dd if=/dev/zero of="$dir/pipe" bs=4096 oflag=nonblock 2>/dev/null || true
kill -TERM "$server_pid"
process_await "$server_pid" 30 || fail "it does not stop while its log is full"
[ "$process_status" -eq 0 ] || fail "status $process_status"
ok "a full pipe does not keep it from stopping"
