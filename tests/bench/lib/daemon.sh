# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the benchmarks that start rmemd on the host; RMEMCTL is the command to run.

DAEMON_PID=

# daemon_start DIR ADDRESS PORT FABRIC SECTIONS COMMAND...: start rmemd by COMMAND, with SECTIONS in
# its configuration, and wait until it answers.  Sets DAEMON_PID and DAEMON_DIR; the log is
# DIR/rmemd.log.
daemon_start()
{
	local i

	DAEMON_DIR=$1
	cat >"$1/rmemd.conf" <<-CONF
		[server]
		listen = $2
		port = $3
		insecure = yes
		[tcp]
		port = $(($3 + 1))
		[rdma]
		enabled = $([ "$4" = rdma ] && echo yes || echo no)
		[admin]
		socket = $1/admin.sock
		[log]
		target = stderr
		$5
	CONF
	"${@:6}" --config "$1/rmemd.conf" >"$1/rmemd.log" 2>&1 &
	DAEMON_PID=$!
	for ((i = 0; i < 600; i++)); do
		! daemon_ctl status >/dev/null 2>&1 || return 0
		kill -0 "$DAEMON_PID" 2>/dev/null || break
		sleep 0.1
	done
	cat "$1/rmemd.log" >&2
	exit 1
}

# daemon_ctl COMMAND...: the JSON output of rmemctl
daemon_ctl()
{
	"$RMEMCTL" --socket "$DAEMON_DIR/admin.sock" --json "$@"
}
