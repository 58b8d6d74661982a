#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Files and pipes of all sizes are stored and read back unchanged, each by its own process.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq sha256sum

pool_size=320M
server_start

# round_trip BYTES: from a file to a file, and from a pipe to a pipe
round_trip()
{
	local bytes=$1
	make_file "$dir/in" "$bytes"
	client put "size/$bytes" "$dir/in"
	client get "size/$bytes" "$dir/out"
	same "$dir/in" "$dir/out"
	# shellcheck disable=SC2002 # a pipe is intended
	cat "$dir/in" | client put "pipe/$bytes"
	client get "pipe/$bytes" - | cat >"$dir/out"
	same "$dir/in" "$dir/out"
	[ "$(client ls --json "pipe/$bytes" | jq '.[0].bytes')" = "$bytes" ] ||
		fail "the length of pipe/$bytes is not exact"
	ok "$bytes bytes"
}

for bytes in 0 1 4095 4096 4097 $((3 * 1024 * 1024 + 1)); do
	round_trip "$bytes"
done
round_trip $((64 * 1024 * 1024))
client rm "pipe/$((64 * 1024 * 1024))"

# a put from a pipe grows its lease in advance and shrinks it to the page at the end
status_await \
	".memory.lent_bytes == $(client ls --json | jq '[.[].bytes / 4096 | ceil] | add * 4096')" \
	20 || fail "more is lent than the named leases have"
ok "lent to the page"

# requested and granted placement; on one node an interleaved lease has one segment
make_file "$dir/in" 3000000
for place in any node:0 interleave; do
	client -v put --place "$place" placed "$dir/in" 2>"$dir/printed"
	client get placed "$dir/out"
	same "$dir/in" "$dir/out"
	asked='anywhere|on node 0|interleaved'
	grep -qE "^rmem: asked for ($asked), got 2.9 MiB on .*node.*, 1 segment$" \
		"$dir/printed" || fail "$(cat "$dir/printed")"
done
client copy --place interleave placed copied
client get copied "$dir/out"
same "$dir/in" "$dir/out"
rmemctl --json leases | jq -e '[.leases[] | select(.name == "placed" or .name == "copied") |
	.placement == "interleave" and .node_asked == null and
	(.nodes | map(.bytes) | add) == .bytes] == [true, true]' >/dev/null ||
	fail "$(rmemctl leases)"
client rm placed copied
expect_error 1 "no RDMA device 'none0' is served here" client put --place device:none0 n "$dir/in"
for place in "" here node: node:-1 node:99999; do
	expect_error 2 'place' client put --place "$place" n "$dir/in"
done
ok "placement"

# ls: all names, by prefix, in order, as a table and as JSON
[ "$(client ls | wc -l)" -eq 13 ] || fail "ls does not list 13 names"
client ls | sort -c
[ "$(client ls pipe/ | wc -l)" -eq 6 ] || fail "ls pipe/ does not list 6 names"
[ "$(client ls pipe/none)" = "" ] || fail "ls of an unknown name prints something"
client ls -l size/4097 | grep -qE ' 4097 .* size/4097$' || fail "ls -l lacks a line"
client ls --json |
	jq -e 'length == 13 and all(.bytes >= 0 and (.id | test("^[1-9][0-9]*$")))' >/dev/null ||
	fail "ls --json is not as expected"
ok "ls"

# a put to an existing name replaces the content and the length
make_file "$dir/in" 5000
client put size/4096 "$dir/in"
client get size/4096 "$dir/out"
same "$dir/in" "$dir/out"
[ "$(client ls | wc -l)" -eq 13 ] || fail "replacing left another name behind"
ok "replace"

# a get of a missing name does not change FILE, and leaves no other file
mkdir "$dir/out.d"
echo old >"$dir/out.d/file"
chmod 6750 "$dir/out.d/file"
expect_error 1 '^rmem: get: .*missing' client get missing "$dir/out.d/file"
[ "$(cat "$dir/out.d/file")" = old ] || fail "a get that fails changes its file"
client get size/4096 "$dir/out.d/file"
same "$dir/in" "$dir/out.d/file"
[ "$(stat -c %a "$dir/out.d/file")" = 750 ] || fail "get keeps another mode than the permissions"
ln -s file "$dir/out.d/link"
client get size/1 "$dir/out.d/link"
[ -L "$dir/out.d/link" ] || fail "get replaced a symbolic link"
[ "$(stat -c %s "$dir/out.d/file")" = 1 ] || fail "get did not follow the link"
[ "$(ls -A "$dir/out.d")" = "file
link" ] || fail "get left something behind: $(ls -A "$dir/out.d")"
# a get that cannot write all bytes does not change FILE, and leaves no other file
limited()
(
	trap '' XFSZ
	ulimit -f 8
	client get size/3145729 "$dir/out.d/file"
)
expect_error 1 '^rmem: get: writing the output: the file would be larger than' limited
[ "$(stat -c %s "$dir/out.d/file")" = 1 ] || fail "a get that cannot write changes its file"
[ "$(ls -A "$dir/out.d")" = "file
link" ] || fail "a failing get left something behind: $(ls -A "$dir/out.d")"
client get size/1 /dev/null
[ -c /dev/null ] || fail "get replaced a device"
ok "get into files that exist"

# a put from standard input begins at the offset of the file
{ head -c 1000 >/dev/null; client put rest; } <"$dir/in"
tail -c +1001 "$dir/in" >"$dir/rest"
client get rest | cmp - "$dir/rest" || fail "the stored rest of the file differs"
client rm rest
ok "from the offset of a file"

# a slow pipe: the parts come one by one, with a ping between them
mkfifo "$dir/fifo"
client put slow "$dir/fifo" &
slow_pid=$!
pids+=("$slow_pid")
exec 7>"$dir/fifo"
for _ in 1 2 3; do
	head -c 700000 "$dir/in" >&7
	client ping -c 1 >/dev/null
done
exec 7>&-
process_await "$slow_pid" 30 || fail "put from a pipe does not end"
[ "$process_status" -eq 0 ] || fail "put from a slow pipe ended with $process_status"
[ "$(client get slow | wc -c)" -eq 15000 ] || fail "put from a slow pipe lost bytes"
client rm slow
ok "slow pipe"

# a put from a pipe borrows little in advance, so that others find room
before=$(status_get .memory.lent_bytes)
client put grows "$dir/fifo" &
slow_pid=$!
pids+=("$slow_pid")
exec 7>"$dir/fifo"
head -c 70M /dev/zero >&7
lent=$(($(status_get .memory.lent_bytes) - before))
[ "$lent" -lt $((80 << 20)) ] || fail "a put of 70 MiB keeps $lent bytes from others"
ok "70 MiB of a pipe borrow $((lent >> 20)) MiB"
exec 7>&-
process_await "$slow_pid" 30 || fail "put from a pipe does not end"
client rm grows

# a reader finds the old content or the new while both replace each other again and again
head -c 6M /dev/zero | tr '\0' a >"$dir/a"
head -c 5M /dev/zero | tr '\0' b >"$dir/b"
client put hot "$dir/a"
while client put hot "$dir/b" && client put hot "$dir/a"; do :; done 2>/dev/null &
hot_pid=$!
pids+=("$hot_pid")
# content FILE: it is one of the two, or the first MiB of it
content()
{
	cmp -s "$1" "$dir/a" || cmp -s "$1" "$dir/b" ||
		cmp -s "$1" <(head -c 1M "$dir/a") || cmp -s "$1" <(head -c 1M "$dir/b") ||
		fail "a get gave neither the old content nor the new"
}
for i in {1..20}; do
	client get hot "$dir/out" || fail "get $i into a file: status $?"
	content "$dir/out"
	client get --length 1M hot | cat >"$dir/out" || fail "get $i into a pipe: status $?"
	content "$dir/out"
done
kill "$hot_pid"
process_await "$hot_pid" 20 || fail "the puts do not end"
poll_await 20 json_is sessions '.sessions == []' || fail "a put goes on"
client rm hot
ok "old or new"

# an interrupted put keeps the old content
background interrupted put size/1 "$dir/fifo"
put_pid=$client_pid
pids+=("$put_pid")
exec 7>"$dir/fifo"
head -c 5000 "$dir/in" >&7
status_await '.leases.ephemeral == 1' 20 || fail "the put does not start"
kill -TERM "$put_pid"
process_await "$put_pid" 20 || fail "an interrupted put does not end"
[ "$process_status" -eq 143 ] || fail "an interrupted put ended with $process_status"
exec 7>&-
[ "$(client get size/1 | wc -c)" -eq 1 ] || fail "an interrupted put changed the content"
ok "interrupted put"

# beside a silent server an interrupt ends a transfer, though a call waits for ten minutes: the
# first one in order, and a second one where it is
exec 7<>"$dir/fifo"
for times in 1 2; do
	background silent --timeout 600s put size/1 "$dir/fifo"
	put_pid=$client_pid
	head -c 5000 "$dir/in" >&7
	# from then on it catches signals
	status_await '.leases.ephemeral == 1' 20 || fail "the put does not start"
	kill -STOP "$server_pid"
	for ((i = 0; i < times; i++)); do
		kill -INT "$put_pid"
	done
	process_await "$put_pid" 60 || fail "a put beside a silent server cannot be interrupted"
	[ "$process_status" -eq 130 ] ||
		fail "it ended with $process_status: $(cat "$dir/silent.err")"
	[ "$times" -eq 2 ] || grep -q "rmem: put: .*interrupted" "$dir/silent.err" ||
		fail "it did not end in order: $(cat "$dir/silent.err")"
	kill -CONT "$server_pid"
	# or the next one seems to have started
	status_await '.sessions.active == 0' 20 || fail "the interrupted session is active"
done
exec 7>&-
ok "interrupted beside a silent server"

# several channels; -v prints fabric and channels
make_file "$dir/in" $((20 * 1024 * 1024 + 77))
client --channels 4 put channels "$dir/in"
client get -v --channels 3 channels "$dir/out" 2>"$dir/stderr"
same "$dir/in" "$dir/out"
grep -qE '^rmem: .* over (tcp|rdma)( on .*)?, 3 channels' "$dir/stderr" ||
	fail "-v does not print fabric and channels: $(cat "$dir/stderr")"
ok "$(cat "$dir/stderr")"

# a session may have a queue with the maximum of channels in addition to its own channel
client --channels 64 put wide "$dir/in"
client --channels 64 get wide "$dir/out"
same "$dir/in" "$dir/out"
ok "the maximum of channels"

client rm channels
client ls | xargs -d '\n' "$RMEM" -s "$uri" rm
[ -z "$(client ls)" ] || fail "rm left names"
expect_error 1 'nothing-here' client rm nothing-here
lent_zero 20
server_stop
