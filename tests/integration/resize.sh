#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A reload resizes a pool while programs use it.  Leases keep their bytes; programs are asked to
# free the leases that are in the way; if they do not, the pool is not shrunk, or the leases are
# revoked.  A daemon that is killed meanwhile loses nothing.
#   RMEM_RESIZE_KILLS  number of kills while the pool grows, default 3
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

state_keep
one_thread_with_tsan
pool_size=64M
config_extra="shrink = refuse
shrink_wait = 1h"

# pool FIELD
pool()
{
	rmemctl --json pools | jq -r ".pools[0].$1"
}

# configure SIZE SHRINK WAIT
configure()
{
	sed -i -e "s/^size = .*/size = $1/" -e "s/^shrink = .*/shrink = $2/" \
		-e "s/^shrink_wait = .*/shrink_wait = $3/" "$dir/rmemd.conf"
}

# reload SIZE [SHRINK [WAIT]]: change the configuration and reload it
reload()
{
	configure "$1" "${2:-refuse}" "${3:-1h}"
	log_mark
	kill -HUP "$server_pid"
}

# size_is MIB: the pool is ready and has this size
size_is()
{
	[ "$(pool bytes)" -eq $(($1 << 20)) ] && [ "$(pool state)" = ready ]
}

# resized EVENT MIB: wait for the event; the pool and its file then have this size
resized()
{
	log_await "^$1: .*pool=small" 60 || fail "no event $1: $(tail -n 3 "$server_log")"
	size_is "$2" || fail "the pool is not $2 MiB: $(rmemctl pools)"
	[ "$(stat -c %s "$state"/pool-*)" -eq $(($2 << 20)) ] || fail "$(ls -l "$state")"
}

# resized_await MIB: wait until the pool has this size; its file then has it, too
resized_await()
{
	poll_await 60 size_is "$1" || fail "the pool does not become $1 MiB: $(rmemctl pools)"
	[ "$(stat -c %s "$state"/pool-*)" -eq $(($1 << 20)) ] || fail "$(ls -l "$state")"
}

# program MODE N BYTES: run it in the background; its input is a pipe, its output is $dir/printed
program()
{
	rm -f "$dir/to"
	mkfifo "$dir/to"
	: >"$dir/printed"
	"$(built tests/integration/resize)" "$uri" "$@" <"$dir/to" >"$dir/printed" 2>&1 &
	program_pid=$!
	pids+=("$program_pid")
	exec {to}>"$dir/to"
	printed 1 ready
}

# has_printed N LINE: whether the program has printed LINE at least N times
has_printed()
{
	[ "$(grep -cE "^$2\$" "$dir/printed")" -ge "$1" ] && return
	kill -0 "$program_pid" 2>/dev/null || fail "the program: $(tail -n 5 "$dir/printed")"
	return 1
}

# prints N LINE: wait until the program has printed LINE at least N times
prints()
{
	poll_await 60 has_printed "$@" ||
		fail "not printed $1 times '$2': $(tail -n 5 "$dir/printed")"
}

# printed N LINE: wait until the program has printed LINE N times, and not more often
printed()
{
	prints "$@"
	[ "$(grep -cE "^$2\$" "$dir/printed")" -eq "$1" ] || fail "printed '$2' more than $1 times"
}

# good N: the program has N leases, and each has its bytes
good()
{
	local before
	before=$(grep -c "^good $1\$" "$dir/printed") || true
	echo check >&"$to"
	printed $((before + 1)) "good $1"
}

program_end()
{
	echo end >&"$to"
	exec {to}>&-
	process_await "$program_pid" 60 || fail "the program does not end"
	[ "$process_status" -eq 0 ] || fail "the program: $(cat "$dir/printed")"
	status_await '.memory.lent_bytes == 0 and .memory.scrubbing_bytes == 0' 30 ||
		fail "memory is still lent"
}

killed()
{
	kill -KILL "$server_pid"
	process_await "$server_pid" 20 || fail "a killed daemon does not end"
}

server_start
make_file "$dir/in" 40000000

echo "-- grow"
client put first "$dir/in"
expect_error 1 'no room for' client put second "$dir/in"
reload 160M
resized pool-grown 160
client put second "$dir/in"
for name in first second; do
	client get "$name" "$dir/out"
	same "$dir/in" "$dir/out"
done
client rm second
# a size that the host does not have changes nothing
reload 900T
resized pool-not-grown 160
grep -q '^pool-not-grown: it stays at 160 MiB: .*make the pool smaller' "$server_log" ||
	fail "$(grep '^pool-not-grown' "$server_log")"
client get first "$dir/out"
same "$dir/in" "$dir/out"

echo "-- shrink, with nothing in the way"
reload 64M
resized pool-shrunk 64
client get first "$dir/out"
same "$dir/in" "$dir/out"
expect_error 1 'no room for' client put second "$dir/in"

echo "-- a program that moves the leases in the way"
reload 160M
resized pool-grown 160
# its leases are at about 40 to 104 MiB
program move 16 $((4 << 20))
client rm first
lent_before=$(pool lent_bytes)
reload 72M
resized pool-shrunk 72
[ "$(pool lent_bytes)" -eq "$lent_before" ] || fail "$(pool lent_bytes) bytes lent"
grep -qE '^wanted [1-9][0-9]* 0$' "$dir/printed" || fail "it was not asked"
good 16
program_end

echo "-- a program that keeps them: refused"
reload 160M
resized pool-grown 160
program keep 32 $((4 << 20))
reload 64M
log_await '^pool-shrinking: ' || fail "it does not shrink"
printed 16 'wanted 4194304 0'
[ "$(pool state)" = shrinking ] || fail "it is $(pool state)"
[ "$(pool bytes_to)" -eq $((64 << 20)) ] || fail "to $(pool bytes_to)"
[ "$(pool recalled_bytes)" -eq $((64 << 20)) ] || fail "$(pool recalled_bytes) are in the way"
rmemctl -o wide pools | grep -q 'shrinking *64 MiB *64 MiB' || fail "$(rmemctl pools)"
# memory that is to be removed is not lent
expect_error 1 'no room for' client put small "$dir/rmemd.conf"
# a reload with another time limit asks again
reload 64M refuse 1s
resized pool-not-shrunk 160
printed 32 'wanted 4194304 0'
text='it stays at 160 MiB: in the way are still 64 MiB of 16 leases: [0-9]+ of tenant default'
grep -qE "^pool-not-shrunk: $text has 4 MiB, .*, \.\.\.; have them freed" \
	"$server_log" || fail "$(grep '^pool-not-shrunk' "$server_log")"
printed 16 'wanted 0 0'
client put small "$dir/rmemd.conf"
client rm small
good 32

echo "-- a later reload replaces an earlier one"
reload 64M
printed 48 'wanted 4194304 0'
reload 128M
# no lease is in the way of this size
printed 32 'wanted 0 0'
resized pool-shrunk 128
reload 100M
printed 55 'wanted 4194304 0'
reload 176M
resized pool-grown 176
printed 39 'wanted 0 0'
good 32

echo "-- killed while it waits"
reload 64M
printed 71 'wanted 4194304 0'
killed
server_restart
# the next daemon shrinks again and asks the program when it reconnects.  The loss of the connection
# is a notice, too, and may find the lease wanted again, so there may be more lines
prints 87 'wanted 4194304 0'
[ "$(pool state)" = shrinking ] || fail "it is $(pool state)"
[ "$(pool bytes)" -eq $((176 << 20)) ] || fail "the pool has $(pool bytes) bytes"
good 32

echo "-- revoked"
reload 64M revoke 1s
printed 16 'ended'
resized pool-shrunk 64
[ "$(grep -c '^lease-revoked' "$server_log")" -eq 16 ] || fail "$(cat "$server_log")"
good 16
program_end

echo "-- killed while it grows and shrinks"
client put kept "$dir/in"
# on a fast host the size is raised until a kill finds the pool half grown
half=0
size=256
for i in {1..20}; do
	reload ${size}M
	sleep "0.0$((i * 7 % 10))"
	killed
	# half grown: the file has its length, but not all of its pages
	read -r bytes blocks < <(stat -c '%s %b' "$state"/pool-*)
	server_restart
	if [ "$bytes" -eq $((size << 20)) ] && [ $((blocks * 512)) -lt "$bytes" ]; then
		half=$((half + 1))
		grep -q '^pool-ready: 64 MiB ' "$server_log" ||
			fail "the half grown pool is used: $(grep '^pool-ready' "$server_log")"
		text='it stays at 64 MiB: the last process ended while it made it'
		grep -q "^pool-not-grown: $text" "$server_log" ||
			fail "the pool grows again without a reload"
	fi
	# the pool may have been populated, but not recorded as grown
	! grep -q '^pool-not-grown: .*reload to try again' "$server_log" || reload "${size}M"
	resized_await "$size"
	[ "$half" -gt 0 ] || [ "$size" -ge 2048 ] || size=$((size * 2))
	client get kept "$dir/out"
	same "$dir/in" "$dir/out"
	reload 64M
	sleep "0.00$((i * 7 % 10))"
	killed
	# a file that is longer than the recorded pool is truncated
	server_restart
	resized_await 64
	[ "$half" -lt "${RMEM_RESIZE_KILLS:-3}" ] || break
done
[ "$half" -gt 0 ] || fail "no kill found the pool half grown"
client get kept "$dir/out"
same "$dir/in" "$dir/out"

echo "-- another size at a start"
server_stop
configure 96M refuse 1h
server_restart
resized pool-grown 96
client get kept "$dir/out"
same "$dir/in" "$dir/out"
client rm kept
reload 900T
resized pool-not-grown 96
server_stop
# without leases the pool is created with its configured size, or the start fails
! timeout 60 "$RMEMD" --config "$dir/rmemd.conf" 2>"$dir/refused" || fail "the daemon starts"
grep -q 'make the pool smaller' "$dir/refused" || fail "$(cat "$dir/refused")"
configure 48M refuse 1h
server_restart
[ "$(pool bytes)" -eq $((48 << 20)) ] || fail "the pool has $(pool bytes) bytes"
[ "$(find "$state" -name 'pool-*' | wc -l)" -eq 1 ] || fail "files are left: $(ls "$state")"
server_stop
