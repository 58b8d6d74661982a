#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Functions of the integration tests: a private directory, a daemon with a small pool, clients,
# checks.  A test sources this file:
#
#   . "$(dirname "$0")/lib.sh"
#   server_start
#   client put name file
#   server_stop
#
# Environment, so that the tests also run in a virtual machine with RDMA:
#   FABRIC     fabric of the clients: tcp (default), rdma or auto
#   LISTEN     address of the daemon, default 127.0.0.1
#   CONNECT    how the daemon sets up RDMA channels: cm (default) or direct
#   RMEMD, RMEM, RMEMCTL   the programs
#   RMEM_SEED  seed of random choices; printed
#   KEEP       not empty: the directory is not removed
# shellcheck disable=SC2034 # variables are for the tests
set -euo pipefail

top_srcdir=${top_srcdir:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
top_builddir=${top_builddir:-$top_srcdir/build}
FABRIC=${FABRIC:-tcp}
LISTEN=${LISTEN:-127.0.0.1}
CONNECT=${CONNECT:-cm}

# built PATH: the program behind libtool's script at PATH, which needs ten times as long to start
built()
{
	local real=$top_builddir/${1%/*}/.libs/${1##*/}
	if [ -x "$real" ]; then echo "$real"; else echo "$top_builddir/$1"; fi
}
RMEMD=${RMEMD:-$(built src/rmemd/rmemd)}
RMEM=${RMEM:-$(built src/rmem/rmem)}
RMEMCTL=${RMEMCTL:-$(built src/rmemctl/rmemctl)}
# of a client that is given, its library goes first
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$top_builddir/.libs

export RMEM_SEED=${RMEM_SEED:-$((RANDOM * 32768 + RANDOM))}
echo "RMEM_SEED=$RMEM_SEED"

# A test may set these before server_start.
pool_size=192M
tcp_threads=2
heartbeat=500ms
fence=10s
grace=10s
state=auto         # [server] state
config_extra=

# A client orders its accesses to a lease, which may use two streams.  ThreadSanitizer does not see
# that order and would report a race between the daemon's threads that serve the streams.
one_thread_with_tsan()
{
	if with_tsan; then
		tcp_threads=1
	fi
}

with_tsan()
{
	grep -q -- -fsanitize=thread "$top_builddir/Makefile"
}

sanitized()
{
	grep -q "^RMEM_CFLAGS = .*-fsanitize=" "$top_builddir/Makefile"
}

server_pid=
server_log=
log_from=1
uri=
failure=         # what `fail`, or the trap of a command that failed, said
kept_state=      # the directory of state_keep
pids=()          # processes that are killed at the end of the test
netns_exec=()    # prefix of the daemon's command
client_exec=()   # prefix of the clients' commands

dir=$(mktemp -d "${TMPDIR:-/tmp}/rmem-test.XXXXXX")
client_limit=60  # seconds

# Factor of all time limits, for slow or busy machines.
patience=${RMEM_PATIENCE:-1}

# Sanitizers report to files, because a test may discard the program's stderr.
for name in ASAN UBSAN TSAN LSAN; do
	declare -x "${name}_OPTIONS=log_path=$dir/sanitizer:print_stacktrace=1:$(
		printenv "${name}_OPTIONS" || true)"
done

skip()
{
	echo "SKIP: $*"
	exit 77
}

fail()
{
	failure="FAIL: $*"
	echo "$failure"
	exit 1
}

ok()
{
	echo "ok: $*"
}

# need PROGRAM...: skip the test if one is missing
need()
{
	local program
	for program; do
		command -v "$program" >/dev/null || skip "$program is not installed"
	done
}

cleanup()
{
	local status=$? pid
	trap - EXIT ERR
	for pid in "${pids[@]}"; do
		kill -KILL "$pid" 2>/dev/null || true
	done
	wait 2>/dev/null || true
	if [ "$status" -ne 0 ] && [ "$status" -ne 77 ]; then
		[ -z "$server_log" ] || sed 's/^/rmemd: /' "$server_log" | tail -n 60
		# again, as often only the last lines are read
		[ -z "$failure" ] || echo "$failure"
	fi
	if compgen -G "$dir/sanitizer*" >/dev/null; then
		cat "$dir"/sanitizer*
		status=1
	fi
	if declare -F test_cleanup >/dev/null; then
		test_cleanup
	fi
	[ -z "$kept_state" ] || rm -rf "$kept_state"
	[ -n "${KEEP:-}" ] || rm -rf "$dir"
	exit "$status"
}
trap cleanup EXIT
# a command that fails ends the test without a word of its own
set -E
trap 'failure="FAIL: ${BASH_SOURCE[0]##*/}:$LINENO: status $? of $BASH_COMMAND"
	echo "$failure" >&2' ERR
trap 'exit 130' INT TERM

for program in "$RMEMD" "$RMEM" "$RMEMCTL"; do
	[ -x "$program" ] || skip "$program is not built"
done

# The daemon keeps its state, also when it is killed: set `state` to a directory where memory can be
# kept, which is removed at the end of the test.
state_keep()
{
	[ "$(stat -f -c %T /dev/shm)" = tmpfs ] || skip "/dev/shm is no tmpfs"
	state=$(mktemp -d /dev/shm/rmem-test.XXXXXX)
	kept_state=$state
}

# port_taken PORT: whether a process listens on this TCP port
port_taken()
{
	(exec 3<>"/dev/tcp/$LISTEN/$1") 2>/dev/null
}

# Set `port` to the first of three free ports, below the range of outgoing connections.
ports_choose()
{
	local try
	for try in {1..50}; do
		port=$((20000 + RANDOM % 4000 * 3))
		port_taken "$port" || port_taken $((port + 1)) || port_taken $((port + 2)) ||
			return 0
	done
	fail "no free ports found in $try tries"
}

server_config()
{
	local verbs=no tcp=yes insecure=yes
	[ "$FABRIC" = tcp ] || verbs=auto
	[ "$FABRIC" != rdma ] || verbs=yes
	case $LISTEN in
	127.* | ::1) insecure=no ;;
	esac
	cat >"$dir/rmemd.conf" <<-END
		[server]
		listen = $LISTEN
		port = $port
		insecure = $insecure
		state = $state
		[session]
		heartbeat = $heartbeat
		fence = $fence
		grace = $grace
		[rdma]
		enabled = $verbs
		port = $((port + 1))
		connect = $CONNECT
		[tcp]
		enabled = $tcp
		threads = $tcp_threads
		port = $((port + 2))
		[admin]
		socket = $dir/admin.sock
		[log]
		target = plain
		[pool small]
		size = $pool_size
		page_size = base
		$config_extra
	END
}

# log_await ignores the lines before this call.
log_mark()
{
	log_from=$(($(wc -l <"$server_log") + 1))
}

# log_await PATTERN [SECONDS]: wait until a line of the daemon's log matches; fails when the daemon
# ends.
log_await()
{
	local pattern=$1 limit=$((${2:-20} * patience)) line tail_pid found=no fd
	exec {fd}< <(exec tail -n "+$log_from" -s 0.1 -f --pid="$server_pid" "$server_log" \
		2>/dev/null)
	tail_pid=$!
	while IFS= read -r -t "$limit" -u "$fd" line; do
		if [[ $line =~ $pattern ]]; then
			found=yes
			break
		fi
	done
	exec {fd}<&-
	kill "$tail_pid" 2>/dev/null || true
	[ "$found" = yes ]
}

# Control connections and data under TLS, by a key, which clients have.
tls_by_psk()
{
	"$RMEMCTL" keygen default "$dir"
	export RMEM_PSK=$dir/default.psk
	config_extra+="
[server]
auth = psk
psk = $dir/rmemd.psk
[tcp]
tls = yes
"
}

# Write the configuration and start the daemon.
server_start()
{
	ports_choose
	server_config
	server_restart
}

# Start the daemon with the existing configuration, and wait until it is ready.
server_restart()
{
	server_log=$dir/rmemd.log
	: >"$server_log"
	log_from=1
	"${netns_exec[@]}" "$RMEMD" --config "$dir/rmemd.conf" >"$server_log" 2>&1 &
	server_pid=$!
	pids+=("$server_pid")
	uri="rmem://$LISTEN:$port?fabric=$FABRIC"
	log_await '^ready:' 60 || fail "rmemd did not become ready"
}

# process_await PID SECONDS: wait until the process has ended; sets process_status.
process_await()
{
	local pid=$1 limit=$(($2 * patience)) i
	if ! timeout "$limit" tail -s 0.05 -f --pid="$pid" /dev/null; then
		return 1
	fi
	process_status=0
	wait "$pid" || process_status=$?
	for i in "${!pids[@]}"; do
		[ "${pids[i]}" != "$pid" ] || unset "pids[i]"
	done
}

# Stop the daemon: it must end with status 0 and must have logged no error.
server_stop()
{
	kill -TERM "$server_pid"
	process_await "$server_pid" 30 || fail "rmemd did not stop within 30 s of SIGTERM"
	[ "$process_status" -eq 0 ] || fail "rmemd ended with status $process_status"
	if grep -E '^error ' "$server_log"; then
		fail "rmemd logged errors"
	fi
	server_pid=
}

# background NAME ARGUMENT...: start a client; sets client_pid, its output is in NAME.out and
# NAME.err.
background()
{
	local name=$1
	shift
	"${client_exec[@]}" "$RMEM" -s "$uri" "$@" >"$dir/$name.out" 2>"$dir/$name.err" &
	client_pid=$!
	pids+=("$client_pid")
}

client()
{
	"${client_exec[@]}" timeout -k 5 $((client_limit * patience)) "$RMEM" -s "$uri" "$@"
}

rmemctl()
{
	timeout -k 5 $((20 * patience)) "$RMEMCTL" --socket "$dir/admin.sock" "$@"
}

# status_get PATH: a value of the daemon's status
status_get()
{
	rmemctl --json status | jq -e "$1"
}

# poll_await SECONDS COMMAND...: repeat until COMMAND succeeds, for conditions without an event
poll_await()
{
	local end=$((SECONDS + $1 * patience))
	until "${@:2}"; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.1
	done
}

# json_is COMMAND ARGUMENT...: whether the JSON output of rmemctl COMMAND satisfies a filter of jq
json_is()
{
	rmemctl --json "$1" | jq -e "${@:2}" >/dev/null
}

# status_await FILTER SECONDS: wait until the status satisfies a filter of jq
status_await()
{
	poll_await "$2" json_is status "$1" || {
		rmemctl status
		return 1
	}
}

# lent_zero SECONDS: wait until no memory is lent
lent_zero()
{
	status_await '.memory.lent_bytes == 0' "$1" || fail "memory is still lent"
}

# expect_error STATUS PATTERN COMMAND...: COMMAND ends with STATUS, and a line of its stderr matches
expect_error()
{
	local want=$1 pattern=$2 status=0
	shift 2
	"$@" >"$dir/stdout" 2>"$dir/stderr" || status=$?
	[ "$status" -eq "$want" ] ||
		fail "status $status, not $want, of: $* ($(cat "$dir/stderr"))"
	grep -qE -- "$pattern" "$dir/stderr" ||
		fail "stderr of '$*' does not match '$pattern': $(cat "$dir/stderr")"
	ok "$(grep -m 1 -E -- "$pattern" "$dir/stderr")"
}

# make_file PATH BYTES: a file of random bytes
make_file()
{
	head -c "$2" /dev/urandom >"$1"
}

same()
{
	cmp "$1" "$2" || fail "$1 and $2 differ"
}
