#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A reload resizes a pool while programs use it: their leases keep their bytes, the programs are
# asked for leases that are in the way, and at the end the resizing is refused or leases are
# revoked.  A daemon that is killed meanwhile loses nothing.
#   RMEM_RESIZE_KILLS  number of kills while the pool grows, default 3
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

[ "$(stat -f -c %T /dev/shm)" = tmpfs ] || skip "/dev/shm is no tmpfs"
state=$(mktemp -d /dev/shm/rmem-test.XXXXXX)
test_cleanup()
{
	rm -rf "$state"
}
one_thread_if_watched
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
	sed -i "s/^size = .*/size = $1/; s/^shrink = .*/shrink = $2/; s/^shrink_wait = .*/shrink_wait = $3/" \
		"$dir/rmemd.conf"
}

# reload SIZE [SHRINK [WAIT]]: have the pool resized
reload()
{
	configure "$1" "${2:-refuse}" "${3:-1h}"
	log_mark
	kill -HUP "$server_pid"
}

# resized EVENT SIZE-IN-MIB: it has come to this, and this is what the kernel has
resized()
{
	log_await "^$1: .*pool=small" 60 || fail "no word of $1: $(tail -n 3 "$server_log")"
	[ "$(pool bytes)" -eq $(($2 << 20)) ] || fail "$(pool bytes) bytes, not $2 MiB"
	[ "$(pool state)" = ready ] || fail "it is $(pool state)"
	[ "$(stat -c %s "$state"/pool-*)" -eq $(($2 << 20)) ] || fail "$(ls -l "$state")"
}

# settled SIZE-IN-MIB: it is so, sooner or later
settled()
{
	local end=$((SECONDS + 60 * patience))
	until [ "$(pool bytes)" -eq $(($1 << 20)) ] && [ "$(pool state)" = ready ]; do
		[ "$SECONDS" -lt "$end" ] || fail "it does not become $1 MiB: $(rmemctl pools)"
		sleep 0.05
	done
	[ "$(stat -c %s "$state"/pool-*)" -eq $(($1 << 20)) ] || fail "$(ls -l "$state")"
}

# program MODE N BYTES: in the background; its input is a pipe, what it says is in $dir/heard
program()
{
	rm -f "$dir/to"
	mkfifo "$dir/to"
	: >"$dir/heard"
	"$(built tests/integration/resize)" "$uri" "$@" <"$dir/to" >"$dir/heard" 2>&1 &
	program_pid=$!
	pids+=("$program_pid")
	exec {to}>"$dir/to"
	heard 1 ready
}

# hears N LINE: the program says so, at least N times in all
hears()
{
	local end=$((SECONDS + 60 * patience))
	until [ "$(grep -cE "^$2\$" "$dir/heard")" -ge "$1" ]; do
		[ "$SECONDS" -lt "$end" ] || fail "not heard $1 times '$2': $(tail -n 5 "$dir/heard")"
		kill -0 "$program_pid" 2>/dev/null || fail "the program: $(tail -n 5 "$dir/heard")"
		sleep 0.05
	done
}

# heard N LINE: it has said so N times
heard()
{
	hears "$@"
	[ "$(grep -cE "^$2\$" "$dir/heard")" -eq "$1" ] || fail "heard '$2' more than $1 times"
}

# good N: the program still has what it wrote, in N leases
good()
{
	local before
	before=$(grep -c "^good $1\$" "$dir/heard") || true
	echo check >&"$to"
	heard $((before + 1)) "good $1"
}

program_end()
{
	echo end >&"$to"
	exec {to}>&-
	process_await "$program_pid" 60 || fail "the program does not end"
	[ "$process_status" -eq 0 ] || fail "the program: $(cat "$dir/heard")"
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
# what it cannot have changes nothing
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

echo "-- a program that moves what is in the way"
reload 160M
resized pool-grown 160
# from 40 to 104 MiB or so
program move 16 $((4 << 20))
client rm first
lent_before=$(pool lent_bytes)
reload 72M
resized pool-shrunk 72
[ "$(pool lent_bytes)" -eq "$lent_before" ] || fail "$(pool lent_bytes) bytes lent"
grep -qE '^wanted [1-9][0-9]* 0$' "$dir/heard" || fail "it was not asked"
good 16
program_end

echo "-- one that does not: refused"
reload 160M
resized pool-grown 160
program keep 32 $((4 << 20))
reload 64M
log_await '^pool-shrinking: ' || fail "it does not shrink"
heard 16 'wanted 4194304 0'
[ "$(pool state)" = shrinking ] || fail "it is $(pool state)"
[ "$(pool bytes_to)" -eq $((64 << 20)) ] || fail "to $(pool bytes_to)"
[ "$(pool recalled_bytes)" -eq $((64 << 20)) ] || fail "$(pool recalled_bytes) are in the way"
rmemctl pools | grep -q 'shrinking *64 MiB *64 MiB' || fail "$(rmemctl pools)"
# what is asked back is not lent
expect_error 1 'no room for' client put small "$dir/rmemd.conf"
# with other terms it is asked anew
reload 64M refuse 1s
resized pool-not-shrunk 160
heard 32 'wanted 4194304 0'
grep -qE '^pool-not-shrunk: it stays at 160 MiB: in the way are still 64 MiB of 16 leases: [0-9]+ of tenant default has 4 MiB, .*, \.\.\.; have them freed' \
	"$server_log" || fail "$(grep '^pool-not-shrunk' "$server_log")"
heard 16 'wanted 0 0'
client put small "$dir/rmemd.conf"
client rm small
good 32

echo "-- a later reload takes the place of an earlier one"
reload 64M
heard 48 'wanted 4194304 0'
reload 128M
# all leases fit into that
heard 32 'wanted 0 0'
resized pool-shrunk 128
reload 100M
heard 55 'wanted 4194304 0'
reload 176M
resized pool-grown 176
heard 39 'wanted 0 0'
good 32

echo "-- killed while it waits"
reload 64M
heard 71 'wanted 4194304 0'
killed
server_restart
# the next one begins anew, and says so to who comes back; that the last one's word is void is a
# notice, too, and may find the new one
hears 87 'wanted 4194304 0'
[ "$(pool state)" = shrinking ] || fail "it is $(pool state)"
[ "$(pool bytes)" -eq $((176 << 20)) ] || fail "it has $(pool bytes)"
good 32

echo "-- revoked"
reload 64M revoke 1s
heard 16 'ended'
resized pool-shrunk 64
[ "$(grep -c '^lease-revoked' "$server_log")" -eq 16 ] || fail "$(cat "$server_log")"
good 16
program_end

echo "-- killed while it grows and shrinks"
client put kept "$dir/in"
# a fast host must have more to do
half=0
size=256
for i in {1..20}; do
	reload ${size}M
	sleep "0.0$((i * 7 % 10))"
	killed
	# as long as it is to be, but not all there
	read -r bytes blocks < <(stat -c '%s %b' "$state"/pool-*)
	server_restart
	if [ "$bytes" -eq $((size << 20)) ] && [ $((blocks * 512)) -lt "$bytes" ]; then
		half=$((half + 1))
		grep -q '^pool-ready: 64 MiB ' "$server_log" ||
			fail "it is taken for all there: $(grep '^pool-ready' "$server_log")"
		grep -q '^pool-not-grown: it stays at 64 MiB: the last process ended while it made it' \
			"$server_log" || fail "it grows again by itself"
	fi
	# it may have come to an end but for the last word of it
	! grep -q '^pool-not-grown: .*reload to try again' "$server_log" || reload "${size}M"
	settled "$size"
	[ "$half" -gt 0 ] || [ "$size" -ge 2048 ] || size=$((size * 2))
	client get kept "$dir/out"
	same "$dir/in" "$dir/out"
	reload 64M
	sleep "0.00$((i * 7 % 10))"
	killed
	# a file that is longer than the pool is said to be is cut
	server_restart
	settled 64
	[ "$half" -lt "${RMEM_RESIZE_KILLS:-3}" ] || break
done
[ "$half" -gt 0 ] || fail "never killed while it grows"
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
# without leases it is made as it is configured, or not at all
! timeout 60 "$RMEMD" --config "$dir/rmemd.conf" 2>"$dir/refused" || fail "it starts"
grep -q 'make the pool smaller' "$dir/refused" || fail "$(cat "$dir/refused")"
configure 48M refuse 1h
server_restart
[ "$(pool bytes)" -eq $((48 << 20)) ] || fail "it has $(pool bytes)"
[ "$(find "$state" -name 'pool-*' | wc -l)" -eq 1 ] || fail "files are left: $(ls "$state")"
server_stop
