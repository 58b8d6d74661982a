#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A reload adds pools and removes them.  A pool is lent once it has its memory; if it cannot have
# it, the pool is failed and nothing is left of it.  A pool whose section is gone grants nothing
# more, and is removed with its last lease, also by the next process; or its section comes back.
#   RMEM_POOLS_KILLS  number of kills while a pool is added, default 3
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

state_keep
one_thread_with_tsan
pool_size=64M

# configure [NAME=SIZE...]: the pools besides "small", and their order
configure()
{
	local pool
	cp "$dir/small.conf" "$dir/rmemd.conf"
	for pool; do
		printf '[pool %s]\nsize = %s\npage_size = base\n' "${pool%=*}" "${pool#*=}" \
			>>"$dir/rmemd.conf"
	done
}

# reload [NAME=SIZE...]
reload()
{
	configure "$@"
	log_mark
	kill -HUP "$server_pid"
}

# pool NAME FIELD
pool()
{
	rmemctl --json pools | jq -r --arg name "$1" ".pools[] | select(.name == \$name) | .$2"
}

# state_is NAME STATE
state_is()
{
	[ "$(pool "$1" state)" = "$2" ]
}

# happens EVENT POOL: wait for the event
happens()
{
	log_await "^(error )?$1: .*pool=$2[] ]" 60 ||
		fail "no event $1 of $2: $(tail -n 3 "$server_log")"
}

# files_are N: there are as many files of pools
files_are()
{
	[ "$(find "$state" -name 'pool-*' | wc -l)" -eq "$1" ]
}

killed()
{
	kill -KILL "$server_pid"
	process_await "$server_pid" 20 || fail "a killed daemon does not end"
}

good()
{
	client get "$1" "$dir/out"
	same "$dir/in" "$dir/out"
}

server_start
cp "$dir/rmemd.conf" "$dir/small.conf"
make_file "$dir/in" 50000000
client put low "$dir/in"
expect_error 1 'no room for' client put high "$dir/in"

echo "-- added"
reload high=64M
happens pool-added high
state_is high ready || fail "it is $(pool high state)"
grep -q '^reloaded: [^;]*$' "$server_log" || fail "$(grep '^reloaded' "$server_log")"
[ "$(status_get .memory.bytes)" -eq $((128 << 20)) ] || fail "$(rmemctl status)"
files_are 2 || fail "$(ls "$state")"
client put high "$dir/in"
[ "$(pool high lent_bytes)" -gt 0 ] || fail "nothing of it is lent: $(rmemctl pools)"
expect_error 1 'no room for' client put higher "$dir/in"

echo "-- kept by the next process"
server_stop
server_restart
good high
killed
server_restart
good high
good low
state_is high ready || fail "it is $(pool high state)"

echo "-- its memory is not there"
reload high=64M huge=900T
happens pool-not-added huge
grep -q '^error pool-not-added: .*make the pool smaller; fix that and reload.*pool=huge' \
	"$server_log" ||
	fail "$(grep 'pool-not-added' "$server_log")"
state_is huge failed || fail "it is $(pool huge state)"
rmemctl -o wide pools | grep -q '^huge .*failed.*900 TiB wanted' || fail "$(rmemctl -o wide pools)"
[[ $(pool huge error) == *"make the pool smaller" ]] || fail "$(pool huge error)"
poll_await 20 files_are 2 || fail "$(ls "$state")"
# the next reload tries again
reload high=64M huge=900T
happens pool-not-added huge
reload high=64M huge=32M
happens pool-added huge
[ "$(pool huge error)" = null ] || fail "an error is left"

echo "-- removed at once, as it is empty"
reload high=64M
happens pool-removed huge
[ -z "$(pool huge state)" ] || fail "it is there"
files_are 2 || fail "$(ls "$state")"
# and may come back
reload high=64M huge=32M
happens pool-added huge
reload high=64M
happens pool-removed huge

echo "-- leaving"
reload
happens pool-leaving high
grep -qE '^pool-leaving: .* of 1 lease: [0-9]+ of tenant default has ' "$server_log" ||
	fail "$(grep '^pool-leaving' "$server_log")"
state_is high leaving || fail "it is $(pool high state)"
good high
expect_error 1 'no room for' client put higher "$dir/in"
# what is free in it is not granted
client rm low
client put low "$dir/in"
expect_error 1 'no room for' client put higher "$dir/in"

echo "-- leaving, by the next process"
killed
server_restart
log_await '^pool-leaving: .*pool=high' || fail "it does not leave"
state_is high leaving || fail "it is $(pool high state)"
good high

echo "-- its section comes back"
reload high=64M
happens pool-returns high
poll_await 20 state_is high ready || fail "it is $(pool high state)"
good high
client rm low
client put low "$dir/in"
reload
happens pool-leaving high
# with another page size it stays as it is
configure high=64M
sed -i '$s/.*/page_size = 2M/' "$dir/rmemd.conf"
log_mark
kill -HUP "$server_pid"
happens pool-returns high
log_await '^reloaded: .*needs a restart: \[pool high\] page_size' || fail "it needs no restart"
poll_await 20 state_is high ready || fail "it is $(pool high state)"
[ "$(pool high pages)" = base ] || fail "$(rmemctl pools)"

echo "-- removed with its last lease"
reload
happens pool-leaving high
client rm high
happens pool-removed high
grep -q '^pool-removed: the system has its 64 MiB back' "$server_log" || fail "$(cat "$server_log")"
[ "$(status_get .memory.pools)" -eq 1 ] || fail "$(rmemctl pools)"
poll_await 20 files_are 1 || fail "$(ls "$state")"
good low

echo "-- a program moves its leases away"
reload high=64M
happens pool-added high
client rm low
rm -f "$dir/to"
mkfifo "$dir/to"
"$(built tests/integration/resize)" "$uri" move 14 $((4 << 20)) <"$dir/to" >"$dir/printed" 2>&1 &
program_pid=$!
pids+=("$program_pid")
exec {to}>"$dir/to"
poll_await 60 grep -q '^ready$' "$dir/printed" || fail "$(cat "$dir/printed")"
[ "$(pool high lent_bytes)" -gt 0 ] || fail "nothing of it is lent: $(rmemctl pools)"
reload
happens pool-removed high
grep -qE '^wanted 4194304 0$' "$dir/printed" || fail "it was not asked"
echo check >&"$to"
poll_await 60 grep -q '^good 14$' "$dir/printed" || fail "$(cat "$dir/printed")"
echo end >&"$to"
exec {to}>&-
process_await "$program_pid" 60 || fail "the program does not end"
[ "$process_status" -eq 0 ] || fail "the program: $(cat "$dir/printed")"
lent_zero 30

echo "-- a tenant's pools"
{
	printf '[tenant default]\npools = high\n'
} >>"$dir/small.conf"
reload
log_await '^error reload-failed: .*pools: there is no \[pool high\]' || fail "a pool is missing"
reload high=64M
happens pool-added high
client put high "$dir/in"
[ "$(pool small lent_bytes)" -eq 0 ] || fail "$(rmemctl pools)"
client rm high
sed -i '/^\[tenant default\]/,$d' "$dir/small.conf"
reload
happens pool-removed high

echo "-- stopped while it is added"
reload high=1G
log_await '^pool-adding: .*pool=high' || fail "it is not added"
reload
poll_await 60 files_are 1 || fail "$(ls "$state")"
[ -z "$(pool high state)" ] || fail "it is $(pool high state)"
reload high=32M
happens pool-added high

echo "-- killed while it is added and removed"
client put low "$dir/in"
for ((i = 1; i <= ${RMEM_POOLS_KILLS:-3}; i++)); do
	reload high=32M "more=$((i * 128))M"
	sleep "0.0$((i * 7 % 10))"
	killed
	server_restart
	poll_await 60 state_is more ready || fail "it is $(pool more state)"
	files_are 3 || fail "$(ls "$state")"
	good low
	reload high=32M
	sleep "0.00$((i * 7 % 10))"
	killed
	server_restart
	poll_await 20 files_are 2 || fail "$(ls "$state")"
	good low
done
server_stop
