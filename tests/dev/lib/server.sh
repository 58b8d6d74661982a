# shellcheck shell=bash disable=SC2034 # variables for the commands
# SPDX-License-Identifier: BSD-3-Clause
# A server on loopback, with a folder $WORK that is removed at the end.
WORK=
SERVER_PID=
SERVER= # its URI
ADMIN=

# ports_free N: N free TCP ports
ports_free()
{
	local first used

	used=$(awk '{ sub(/.*:/, "", $2); print $2 }' /proc/net/tcp /proc/net/tcp6)
	for ((first = 20000 + RANDOM % 20000; ; first += $1)); do
		if ! seq -f %.0f "$first" $((first + $1 - 1)) | xargs printf '%04X\n' |
			grep -qxF "$used"; then
			seq "$first" $((first + $1 - 1))
			return
		fi
	done
}

# pool_mib: 1024, or half of the available memory if that is less
pool_mib()
{
	awk '/^MemAvailable:/ { half = int($2 / 2048); print half < 1024 ? half : 1024 }' \
		/proc/meminfo
}

# Lift the limit of pinned memory, which only root may do; the server reports it if that failed.
memlock_lift()
{
	[ "$(ulimit -l)" = unlimited ] ||
		as_root prlimit --pid $$ --memlock=unlimited:unlimited 2>/dev/null || true
}

# server_start POOL_MIB: start rmemd on loopback; sets SERVER and ADMIN
server_start()
{
	local ports tries=300

	mapfile -t ports < <(ports_free 3)
	SERVER=rmem://127.0.0.1:${ports[0]}
	ADMIN=$WORK/admin.sock
	cat >"$WORK/rmemd.conf" <<CONF
[server]
listen = 127.0.0.1
port = ${ports[0]}
[rdma]
port = ${ports[1]}
[tcp]
port = ${ports[2]}
[admin]
socket = $ADMIN
[log]
target = stderr
[pool demo]
size = ${1}M
page_size = auto
CONF
	memlock_lift
	# in a new session, so that Ctrl-C does not reach the daemon: the script ends it
	setsid "$BUILD/src/rmemd/rmemd" --config "$WORK/rmemd.conf" >"$BUILD/rmemd.log" 2>&1 \
		</dev/null &
	SERVER_PID=$!
	until "$BUILD/src/rmemctl/rmemctl" --socket "$ADMIN" status >/dev/null 2>&1; do
		if ! kill -0 "$SERVER_PID" 2>/dev/null || ((tries-- == 0)); then
			cat "$BUILD/rmemd.log" >&2
			die rmemd "did not start; its output is above"
		fi
		sleep 0.1
	done
}

# Stop the server; returns its exit status.
server_stop()
{
	local pid=$SERVER_PID err=0

	[ -n "$pid" ] || return 0
	SERVER_PID=
	kill -TERM "$pid" 2>/dev/null || true
	timeout 20 tail --pid="$pid" -f /dev/null || kill -KILL "$pid" 2>/dev/null || true
	wait "$pid" 2>/dev/null || err=$?
	return "$err"
}

# At the end of the script, also by a signal.
work_end()
{
	server_stop || true
	[ -z "$WORK" ] || rm -rf "$WORK"
}

work_begin()
{
	trap work_end EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	WORK=$(mktemp -d "${TMPDIR:-/tmp}/rmem-dev.XXXXXX")
}
