#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every fault under a program that reads and writes.  Only operations that cannot succeed fail, no
# byte is wrong, nothing hangs, and the second round leaves no open objects in the daemon and the
# kernel that the first one did not leave.
#   FAULTS       which faults, default those that need no RDMA device: refused flushed control
#                server
#   RMEM_ROUNDS  of each fault, default 2
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh" || exit 1
# shellcheck source=tests/fault/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

one_thread_with_tsan
rounds=${RMEM_ROUNDS:-2}
grace=60s
netdev=dummy0
channels=5 # of the load: those of its queue, and one of its synchronous calls
# a channel that ends without an error is logged as well
config_extra=$'[log]\nlevel = debug\n'

# ---- open objects ----

fds_open()
{
	find "/proc/$server_pid/fd" -mindepth 1 -maxdepth 1 | wc -l
}

# The kernel's RDMA objects, without the numbers of devices, which change.
rdma_open()
{
	[ "$FABRIC" = tcp ] || rdma resource show | sed 's/^[0-9]*: //' | sort
}

# The open objects are those of `fds` and `objects`.  One more rdma_cm identifier is allowed: the
# identifier of a domain's first channel stays with the domain when that channel ends.
open_same()
{
	local now ids='s/ cm_id [0-9]*//'
	now=$(rdma_open)
	[ "$(fds_open)" = "$fds" ] &&
		[ "$(sed "$ids" <<<"$now")" = "$(sed "$ids" <<<"$objects")" ] &&
		[ "$(objects_of cm_id "$now")" -le $(($(objects_of cm_id "$objects") + 1)) ]
}

# objects_of TYPE TEXT: their number in the text of rdma_open
objects_of()
{
	awk -v type="$1" '
		{ for (i = 1; i < NF; i++) if ($i == type) n += $(i + 1) }
		END { print n + 0 }' <<<"$2"
}

# Every channel of the load is open, and no queue pair of a lost one is left.
channels_settled()
{
	local over_rdma
	[ "$(status_get .sessions.channels)" = "$channels" ] || return 1
	[ "$FABRIC" != tcp ] || return 0
	over_rdma=$(rmemctl --json devices |
		jq '[.devices[] | select(.fabric == "rdma") | .channels] | add')
	# of both ends
	[ "$(rdma resource show qp | grep -vc 'type GSI')" = $((2 * over_rdma)) ]
}

# Set `fds` and `objects`.  Channels may die at any time, and siw ends some without a fault; what is
# open while they are replaced is not what stays.
open_take()
{
	fds=$(fds_open) objects=$(rdma_open)
	channels_settled && open_same
}

open_await()
{
	local end=$((SECONDS + 20 * patience))
	while [ "$SECONDS" -lt "$end" ]; do
		! open_same || return 0
		sleep 0.2
	done
	find "/proc/$server_pid/fd" -mindepth 1 -maxdepth 1 -printf '%l\n' | sort | uniq -c
	fail "open before: $fds/$objects, now $(fds_open)/$(rdma_open)"
}

# ---- the faults: one round of each ----

fault_refused()
{
	load refuse
}

fault_flushed()
{
	load break 4
}

# The client resumes its session in time: no operation fails.
fault_control()
{
	log_mark
	load cut
	log_await '^session-resumed:' || fail "the session is not resumed"
}

# The leases are lost with the daemon; the client gets ESTALE.
fault_server()
{
	load_send lost
	kill -KILL "$server_pid"
	process_await "$server_pid" 20 || fail "a killed daemon does not end"
	server_restart
	load_await lost
	load_end
	load_start
}

# The port goes down and up; packets may be lost.  Soft-RoCE loses only its carrier: if it sends a
# message of rdma_cm over a device that is down, its GSI queue pair stays in ERR until the link is
# deleted.
fault_port()
{
	local down=(carrier off) up=(carrier on)
	[ -e /sys/class/infiniband/rxe0 ] || down=(down) up=(up)
	log_mark
	ip link set "$netdev" "${down[@]}"
	log_await 'port error' || fail "no event for the port that went down"
	load run "$run"
	ip link set "$netdev" "${up[@]}"
	log_await 'port active' || fail "no event for the port that came back"
}

# users_print PID: the kernel stacks of this process and of each thread of processes that have a
# device open, and the state of the load
users_print()
{
	local process task
	echo "process $1: $(tr '\n' ' ' <"/proc/$1/stack")"
	for process in $(find /proc/[0-9]*/fd -lname '*/uverbs*' 2>/dev/null |
		cut -d / -f 3 | sort -nu); do
		echo "process $process: $(tr '\0' ' ' <"/proc/$process/cmdline")"
		for task in "/proc/$process/task/"*; do
			echo "thread ${task##*/} $(cat "$task/comm"): $(tr '\n' ' ' <"$task/stack")"
		done
	done
	[ ! -e "/proc/$load_pid" ] || echo state >&"$load_in"
	sleep 2
	cat "$dir/load.err"
}

# device_away COMMAND: run it while the device is removed; then add the device, and wait until it
# is served again
device_away()
{
	local name type
	name=$(rdma link show | sed -n 's/^link \([a-z0-9]*\)\/.*/\1/p' | head -n 1)
	type=${name%%[0-9]*}
	log_mark
	# in the background: a process that waits in the kernel cannot be killed
	rdma link delete "$name" &
	process_await "$!" 20 || {
		users_print "$!"
		fail "the kernel waits for a process that has $name open"
	}
	[ "$process_status" -eq 0 ] || fail "rdma link delete: status $process_status"
	log_await 'being removed' || fail "no event for the device that was removed"
	"$@"
	rdma link add "$name" type "$type" netdev "$netdev"
	log_await 'serves now' || fail "$name is added again, but is not served"
}

# Both ends of the sessions use the device: they close it, and wait until it is added again.
fault_removal()
{
	device_away sleep 1
}

# The GSI queue pair of soft-RoCE stays in ERR once a message of rdma_cm finds no route, which
# happens to one sent after the address was deleted and before the GID was.
gsi_lost()
{
	rdma resource show qp | grep -q 'type GSI state ERR'
}

# The device gets another address: the listener follows, and clients learn it.
fault_address()
{
	local old new
	old=$(ip -o -4 address show dev "$netdev" | awk '{ print $4; exit }')
	new=10.9.0.$((10 + round))/24
	log_mark
	ip address add "$new" dev "$netdev"
	ip address delete "$old" dev "$netdev"
	ip -o -4 address show dev "$netdev" | grep -q . || ip address add "$new" dev "$netdev"
	log_await "serves now, at ${new%/*}:" || fail "the listener does not follow"
	rmemctl --json devices | jq -e --arg a "${new%/*}" \
		'.devices[] | select(.fabric == "rdma") | .address == $a' >/dev/null ||
		fail "rmemctl shows another address"
	if gsi_lost; then
		echo "the GSI queue pair is in ERR: the device is removed and added again"
		device_away true
	fi
	load break 4
}

# Sessions over TCP go on; a new session over RDMA uses the device.
fault_device()
{
	rdma_check before
	device_away load run "$run"
	rdma_check after
}

# rdma_check NAME: put and get a file over RDMA
rdma_check()
{
	make_file "$dir/in" 100000
	"$RMEM" -s "${uri%fabric=*}fabric=rdma" put "$1" "$dir/in" || fail "put over RDMA, $1"
	"$RMEM" -s "${uri%fabric=*}fabric=rdma" get "$1" "$dir/out" || fail "get over RDMA, $1"
	same "$dir/in" "$dir/out"
	client rm "$1"
}

server_start
mapfile -t faults < <(tr ' ' '\n' <<<"${FAULTS:-refused flushed control server}")
uri_given=$uri
for fault in "${faults[@]}"; do
	uri=$uri_given
	[ "$fault" != device ] || uri=${uri%fabric=*}fabric=tcp
	if [ "$fault" = address ]; then
		# the control connection does not use the address that changes
		server_stop
		LISTEN=0.0.0.0
		server_start
		uri="rmem://127.0.0.1:$port?fabric=rdma"
		uri_given=$uri
	fi
	load_start
	for ((round = 1; round <= rounds; round++)); do
		"fault_$fault"
		load run "$run"
		load check
		# the first round may leave objects of the reconnected state
		if [ "$round" -eq 1 ]; then
			poll_await 20 open_take ||
				fail "not $channels channels: $(status_get .sessions.channels)," \
					"$(rdma_open)"
		else
			open_await
		fi
		ok "$fault, round $round"
	done
	load_end
done
lent_zero 30
server_stop
