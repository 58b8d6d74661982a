#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A client is stopped beyond the deadline of its writes, and beyond the fence: when it goes on, none
# of them is posted again, whether its session resumes or has ended.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1

program=$(built tests/integration/stopped)
# shellcheck disable=SC2034 # of lib.sh
{ heartbeat=200ms fence=2s grace=60s; }
server_start

# told LINE: the client says this
told()
{
	local line
	read -r line <&3 || fail "the client has ended"
	[ "$line" = "$1" ] || fail "'$line'"
}

# stopped resumes|ends
stopped()
{
	coproc CLIENT { exec "$program" "$uri" "$1"; }
	# shellcheck disable=SC2153 # of coproc
	local pid=$CLIENT_PID
	pids+=("$pid")
	exec 3<&"${CLIENT[0]}" 4>&"${CLIENT[1]}"
	told "stop the server"
	log_mark
	kill -STOP "$server_pid"
	echo >&4
	told "stop the client"
	kill -STOP "$pid"
	kill -CONT "$server_pid"
	log_await '^session-fenced:' || fail "$1: the client was not fenced"
	"$program" "$uri" fills || fail "$1: fills"
	echo >&4
	kill -CONT "$pid"
	process_await "$pid" 60 || fail "$1: the client does not end"
	[ "$process_status" = 0 ] || fail "$1: status $process_status"
	"$program" "$uri" looks || fail "$1: looks"
	ok "$1"
}

stopped resumes
stopped ends
[ "$(grep -c '^session-resumed:' "$server_log")" = 1 ] || fail "the wrong sessions have resumed"
server_stop
