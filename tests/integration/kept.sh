#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The kept state of a daemon is used with another configuration, by another build and while another
# daemon runs.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq

state_keep

# refused TEXT [COMMAND...]: the daemon, run by COMMAND, does not start, and its error contains TEXT
refused()
{
	local status=0
	timeout 30 "${@:2}" "$RMEMD" --config "$dir/rmemd.conf" >"$dir/refused" 2>&1 || status=$?
	case $status in
	0 | 124) fail "status $status, not refused: $1" ;;
	esac
	grep -qF -- "$1" "$dir/refused" || fail "'$1' is not in: $(cat "$dir/refused")"
}

pool()
{
	rmemctl --json pools | jq -r ".pools[] | select(.name == \"$1\") | .$2"
}

server_start
make_file "$dir/in" 3000000
client put kept "$dir/in"

echo "-- another daemon"
sed "s/^port = $port\$/port = $((port + 9))/; s|^socket = .*|socket = $dir/other.sock|" \
	"$dir/rmemd.conf" >"$dir/other.conf"
status=0
timeout 30 "$RMEMD" --config "$dir/other.conf" >"$dir/refused" 2>&1 || status=$?
[ "$status" -ne 0 ] || fail "two daemons have one memory"
grep -qF "another rmemd has it" "$dir/refused" || fail "$(cat "$dir/refused")"
server_stop

echo "-- without standard output and error"
"$RMEMD" --config "$dir/rmemd.conf" 1>&- 2>&- &
server_pid=$!
pids+=("$server_pid")
status_await '.memory.lent_bytes > 0' 20 || fail "the daemon does not start, or has lost the lease"
client get kept "$dir/out"
same "$dir/in" "$dir/out"
server_stop

echo "-- another pool"
sed -i 's/^size = .*/size = 128M\nnode = 0/' "$dir/rmemd.conf"
printf '[pool more]\nsize = 16M\npage_size = base\n' >>"$dir/rmemd.conf"
server_restart
rmemctl metrics | grep -x "rmemd_restarts_survived_total [1-9]" >"$dir/restarts" ||
	fail "the restart is not counted: $(rmemctl metrics | grep restarts)"
grep -q '^pool-stays: configured otherwise now.*pool=small' "$server_log" ||
	fail "no event pool-stays"
[ "$(pool small bytes)" -eq $((192 << 20)) ] || fail "the pool in use has another size"
[ "$(pool more bytes)" -eq $((16 << 20)) ] || fail "the new pool does not exist"
client get kept "$dir/out"
same "$dir/in" "$dir/out"
client rm kept
client put more "$dir/in"
server_stop
# a pool without a section exists until its last lease is freed
sed -i '/^\[pool more\]/,$d' "$dir/rmemd.conf"
server_restart
client get more "$dir/out"
same "$dir/in" "$dir/out"
client rm more
server_stop
server_restart
[ "$(pool small bytes)" -eq $((128 << 20)) ] || fail "the pool has its old size"
[ -z "$(pool more bytes)" ] || fail "a pool without a section and leases exists"
[ "$(find "$state" -name 'pool-*' | wc -l)" -eq 1 ] || fail "files are left: $(ls "$state")"

echo "-- a tenant without a section"
printf '[tenant default]\n[tenant gone]\n' >>"$dir/rmemd.conf"
kill -HUP "$server_pid"
log_await '^reloaded' || fail "reload"
"$RMEM" -s "$uri&tenant=gone" put theirs "$dir/in" || fail "put as another tenant"
server_stop
sed -i '/^\[tenant gone\]/d' "$dir/rmemd.conf"
server_restart
rmemctl leases | grep -q ' gone .* theirs$' || fail "its lease is lost: $(rmemctl leases)"
rmemctl tenants | grep -q '^gone .*leaving' || fail "its state is not leaving: $(rmemctl tenants)"
! "$RMEM" -s "$uri&tenant=gone" ls 2>/dev/null || fail "it is let in"
server_stop
echo '[tenant gone]' >>"$dir/rmemd.conf"
server_restart
"$RMEM" -s "$uri&tenant=gone" get theirs "$dir/out" || fail "get as another tenant"
same "$dir/in" "$dir/out"
server_stop

echo "-- leases without a client"
sed -i 's/^\[tenant default\]/&\nttl_max = 2s/' "$dir/rmemd.conf"
server_restart
client put short "$dir/in"
kill -KILL "$server_pid"
process_await "$server_pid" 20 || fail "a killed daemon does not end"
server_restart
log_await '^lease-expired: "short"' 10 || fail "a lease outlives its time"
server_stop

echo "-- invalid state"
cp "$state/ledger" "$dir/ledger"
printf '\2' | dd of="$state/ledger" bs=1 seek=8 conv=notrunc status=none
refused "start the other rmemd again, or give up what is lent; remove the files in [server] state"
cp "$dir/ledger" "$state/ledger"
slot=$(od -An -tu8 -j16 -N8 "$state/ledger")
area=$(od -An -tu8 -j$((24 + 24 * slot)) -N8 "$state/ledger")
printf 'x' | dd of="$state/ledger" bs=1 seek=$((area + 44)) conv=notrunc status=none
refused "the ledger is damaged at byte"
cp "$dir/ledger" "$state/ledger"
chmod 755 "$state"
refused "chmod 700 $state"
chmod 700 "$state"
# a pool whose file cannot be opened is not treated as removed
pool=$(find "$state" -name 'pool-*' -printf '%f\n' -quit)
mv "$state/$pool" "$state/aside"
ln -s aside "$state/$pool"
refused "$state/$pool: Too many levels of symbolic links"
mv "$state/aside" "$state/$pool"
mv "$state/$pool" "$state/aside"
(umask 077 && head -c 1000 /dev/zero >"$state/$pool")
text="[server] state = $state: pool 'small': its file, $pool, is damaged: it has 1000 bytes"
refused "$text, and not whole pages of 4 KiB; remove the files in [server] state"
mv "$state/aside" "$state/$pool"
# a ledger that is gone, or empty, may come back
rm "$state/ledger"
text="the ledger of what is lent in them is empty"
for _ in gone empty; do
	refused "$text: put it back, or give them up: rm $state/pool-*"
done
cp "$dir/ledger" "$state/ledger"
(umask 077 && : >"$state/pool-77")
# the refused starts lost nothing
server_restart
grep -q "^file-dropped: \[server\] state = $state: pool-77 is of no pool in the ledger" \
	"$server_log" ||
	fail "a file was removed without a line"
"$RMEM" -s "$uri&tenant=gone" get theirs "$dir/out" || fail "get as another tenant"
same "$dir/in" "$dir/out"
server_stop
sed -i "s|^state = .*|state = $dir/none|" "$dir/rmemd.conf"
refused "[server] state = $dir/none: there is no such directory: make it"
mkdir -m 700 "$dir/none"
if [ "$(stat -f -c %T "$dir/none")" != tmpfs ]; then
	refused "so it would be on a disk: give [server] state a directory there"
fi
if unshare -m true 2>/dev/null; then
	refused "free on the file system that its file is on: mount it" \
		unshare -m sh \
		-c "mount -t tmpfs -o mode=700,size=64M none '$dir/none' && exec \"\$@\"" sh
fi
sed -i "s|^state = .*|state = here|" "$dir/rmemd.conf"
refused "'here' is not an absolute path"
