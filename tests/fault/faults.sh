#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Everything that can break under a program that reads and writes, round after round: no
# operation is lost that need not be, no byte is wrong, nothing hangs, and the daemon and the
# kernel have as much open as before.
#   FAULTS       which ones; without RDMA of one's own: refused flushed control server
#   RMEM_ROUNDS  of each, default 2
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh" || exit 1
# shellcheck source=tests/fault/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

one_thread_if_watched
rounds=${RMEM_ROUNDS:-2}
grace=60s
netdev=dummy0

# ---- what is open ----

fds_open()
{
	find "/proc/$server_pid/fd" -mindepth 1 -maxdepth 1 | wc -l
}

# What the kernel has of RDMA, without the numbers that devices get anew.
rdma_open()
{
	[ "$FABRIC" = tcp ] || rdma resource show | sed 's/^[0-9]*: //' | sort
}

# As much as before.  Once the first channel of a client's domain has ended, what connected that
# one stays with the domain: an id more of rdma_cm, once.
open_same()
{
	local now ids='s/ cm_id [0-9]*//'
	now=$(rdma_open)
	[ "$(fds_open)" = "$fds" ] && [ "$(sed "$ids" <<<"$now")" = "$(sed "$ids" <<<"$objects")" ] &&
		[ "$(ids_of "$now")" -le $(($(ids_of "$objects") + 1)) ]
}

ids_of()
{
	awk '{ for (i = 1; i < NF; i++) if ($i == "cm_id") n += $(i + 1) } END { print n + 0 }' <<<"$1"
}

open_await()
{
	local end=$((SECONDS + 20))
	while [ "$SECONDS" -lt "$end" ]; do
		! open_same || return 0
		sleep 0.2
	done
	find "/proc/$server_pid/fd" -mindepth 1 -maxdepth 1 -printf '%l\n' | sort | uniq -c
	fail "open before: $fds/$objects, now $(fds_open)/$(rdma_open)"
}

# ---- the faults: each a round ----

fault_refused()
{
	load refuse
}

fault_flushed()
{
	load break 4
}

# The client comes back before its time is over: nobody notices.
fault_control()
{
	log_mark
	load cut
	log_await '^session-resumed:' || fail "the session is not resumed"
}

# What was lent is lost with it; the client is told.
fault_server()
{
	load_tell lost
	kill -KILL "$server_pid"
	process_await "$server_pid" 20 || fail "a killed daemon does not end"
	server_restart
	load_await lost
	load_end
	load_start
}

# The port goes down and comes back.  What was sent meanwhile may be lost; soft-RoCE must not
# send connection messages over a device that is down, or its queue pair for them (GSI) stays
# in ERROR until the link is deleted: so it loses its carrier only.
fault_port()
{
	local down=(carrier off) up=(carrier on)
	[ -e /sys/class/infiniband/rxe0 ] || down=(down) up=(up)
	log_mark
	ip link set "$netdev" "${down[@]}"
	log_await 'port error' || fail "no news of the port that went down"
	load run "$run"
	ip link set "$netdev" "${up[@]}"
	log_await 'port active' || fail "no news of the port that came back"
}

# users_print PID: where that process waits, who has a device open, where each of his threads
# is, and where the load stands
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

# device_away COMMAND: while the device is gone; then it is back, and the endpoint serves
device_away()
{
	local name type
	name=$(rdma link show | sed -n 's/^link \([a-z0-9]*\)\/.*/\1/p' | head -n 1)
	type=${name%%[0-9]*}
	log_mark
	# who waits in the kernel cannot be ended
	rdma link delete "$name" &
	process_await "$!" 20 || {
		users_print "$!"
		fail "the kernel waits for somebody who has $name"
	}
	[ "$process_status" -eq 0 ] || fail "rdma link delete: status $process_status"
	log_await 'being removed' || fail "no news of the device that was removed"
	"$@"
	rdma link add "$name" type "$type" netdev "$netdev"
	log_await 'serves again' || fail "$name is back, and is not served"
}

# Those over RDMA have both ends on it: they let go, and wait for it.
fault_removal()
{
	device_away sleep 1
}

# soft-RoCE's queue pair for connection messages (GSI) is lost for good once one of them finds
# no route, as one does that is sent between the address's end and the GID's.
gsi_lost()
{
	rdma resource show qp | grep -q 'type GSI state ERR'
}

# The device gets another address: the listener follows, and clients are told.
fault_address()
{
	local old new
	old=$(ip -o -4 address show dev "$netdev" | awk '{ print $4; exit }')
	new=10.9.0.$((10 + round))/24
	log_mark
	ip address add "$new" dev "$netdev"
	ip address delete "$old" dev "$netdev"
	ip -o -4 address show dev "$netdev" | grep -q . || ip address add "$new" dev "$netdev"
	log_await "serves again, at ${new%/*}:" || fail "the listener does not follow"
	rmemctl --json devices | jq -e --arg a "${new%/*}" \
		'.devices[] | select(.fabric == "rdma") | .address == $a' >/dev/null ||
		fail "rmemctl tells another address"
	if gsi_lost; then
		echo "the kernel lost the GSI queue pair: the device is made anew"
		device_away true
	fi
	load break 4
}

# Sessions over TCP do not care.  One that begins later finds the device.
fault_device()
{
	rdma_use before
	device_away load run "$run"
	rdma_use after
}

# A program that puts and gets over RDMA.
rdma_use()
{
	make_file "$dir/in" 100000
	"$RMEM" -s "${uri%fabric=*}fabric=rdma" put "$1" "$dir/in" || fail "no RDMA $1"
	"$RMEM" -s "${uri%fabric=*}fabric=rdma" get "$1" "$dir/out" || fail "no RDMA $1"
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
		# the control connection does not move
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
		# the first may leave as much as every reconnect does
		if [ "$round" -eq 1 ]; then
			fds=$(fds_open) objects=$(rdma_open)
		else
			open_await
		fi
		ok "$fault, round $round"
	done
	load_end
done
lent_zero 30
server_stop
