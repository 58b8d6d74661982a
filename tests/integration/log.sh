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
	poll_await 60 grep -q 'ready: listening' "$dir/log" || fail "it is not ready: $(cat "$dir/log")"
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
