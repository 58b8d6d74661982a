#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The file system of [server] state is full, at sizes from too small for anything on: what was lent
# can be read, freed and kept over a kill, and all say what is full.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq unshare nsenter

unshare -m true 2>/dev/null || skip "no mount namespace can be made"
state=$dir/state
mkdir -m 700 "$state"
pool_size=1M
# the smallest ledger
config_extra=$'[limits]\nsessions = 64'
text="no room: the ledger of .* needs .* more, and .* free: free some there"
text+=", or make its file system larger"

# The mount outlives the daemon in the namespace of a process of its own.
mount_kib()
{
	local mount="mount -t tmpfs -o mode=700,size=$1k none '$state'"

	# not that of the mount before
	: >"$dir/holder"
	unshare -m sh -c "$mount && echo ready && exec sleep 1000" >"$dir/holder" &
	holder=$!
	pids+=("$holder")
	poll_await 20 grep -q ready "$dir/holder" || fail "no tmpfs of $1 KiB"
	netns_exec=(nsenter -m -t "$holder")
}

in_state()
{
	nsenter -m -t "$holder" "$@"
}

fill()
{
	in_state dd if=/dev/zero of="$state/other" bs=4k 2>/dev/null || true
}

# What the ledger has written: the end of its records.
ledger_end()
{
	local slot
	slot=$(in_state od -An -tu8 -j16 -N8 "$state/ledger")
	in_state od -An -tu8 -j$((24 + 24 * slot)) -N24 "$state/ledger"
}

kill_server()
{
	kill -KILL "$server_pid"
	process_await "$server_pid" 20 || fail "a killed daemon does not end"
}

make_file "$dir/in" 100
ports_choose
server_config

# refused KIB TEXT: it does not begin, and says why
refused()
{
	local status=0
	mount_kib "$1"
	timeout 30 "${netns_exec[@]}" "$RMEMD" --config "$dir/rmemd.conf" >"$dir/refused" 2>&1 ||
		status=$?
	[ "$status" -eq 1 ] || fail "status $status: $(cat "$dir/refused")"
	grep -qE -- "$2" "$dir/refused" || fail "not '$2': $(cat "$dir/refused")"
	kill "$holder"
}

echo "-- too small to begin"
refused 64 "start-failed: \[server\] state = $state: $text"
refused 128 "start-failed: \[server\] state = $state: $text"
where="on the file system that its file is on"
refused 256 "start-failed: .*1 MiB wanted, 124 KiB free $where: mount it"
refused 1152 "start-failed: .*1 MiB wanted, 1020 KiB free on the file system"

for kib in 1156 1300 1600 2500; do
	echo "-- $kib KiB, full"
	mount_kib "$kib"
	server_restart
	client put kept "$dir/in"
	background watch watch -c 1 kept
	poll_await 20 json_is sessions '.sessions | length == 1' || fail "no watcher"
	fill
	n=0
	while client put "more$n" "$dir/in" 2>"$dir/err"; do
		n=$((n + 1))
		[ "$n" -lt 500 ] || fail "$n leases in a full file system"
	done
	[ "$n" -ge 20 ] || fail "$n leases: $(cat "$dir/err")"
	grep -qE "state = $state: $text" "$dir/err" || fail "$(cat "$dir/err")"
	echo "$n leases"
	log_await \
		"^state-filling: \\[server\\] state = $state: the ledger .* is [0-9]+ % full" 15 ||
		fail "no line before it is full"
	json_is status '.state | .bytes >= .bytes_max * 0.8 and .bytes <= .bytes_max' ||
		fail "$(rmemctl --json status)"
	rmemctl status | grep -E "^state +[0-9.]+ KiB in the ledger, limit: 32 KiB$" >"$dir/line" ||
		fail "$(rmemctl status)"
	rmemctl metrics | grep -x "rmemd_state_limit_bytes 32768" >"$dir/line" ||
		fail "$(rmemctl metrics | grep state)"
	for ((i = 0; i < 40; i++)); do
		client get kept "$dir/out"
		same "$dir/in" "$dir/out"
	done
	# the next process has what this one had, and writes nothing for that
	kill_server
	before=$(ledger_end)
	server_restart
	status_await '.sessions.active == 1' 20 || fail "the watcher does not resume"
	# but for the number of restarts
	after=$(ledger_end)
	[ $((${after##* } - ${before##* })) -le 48 ] || fail "from $before to $after are written"
	client get kept "$dir/out"
	same "$dir/in" "$dir/out"
	for ((i = 0; i < n; i++)); do
		client rm "more$i"
	done
	client put more "$dir/in"
	client notify kept 7
	process_await "$client_pid" 20 || fail "no notification"
	server_stop
	kill "$holder"
done
