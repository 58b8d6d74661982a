#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What is stored under a name: --ttl, --if-absent, stat, mv, touch, rm by pattern, parts of it; and
# the JSON of rmem and rmemctl, which agree.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq

fence=20s # on a slow machine no client may be fenced
server_start

# member NAME KEY: a member of the JSON of what is stored
member()
{
	client stat --json "$1" | jq -r ".[0].$2"
}

# stored NAME...: exactly these names are stored
stored()
{
	diff <(printf '%s\n' "$@" | sort) <(client ls | sort) || fail "other names are stored"
}

make_file "$dir/old" 100000
make_file "$dir/new" 200000

# ---- time to live ----

client put --ttl 1h a "$dir/old"
client put b "$dir/old"
[ "$(member a 'ttl_ms > 3000000 and .[0].ttl_ms <= 3600000')" = true ] || fail "$(client stat a)"
[ "$(member b ttl_ms)" = null ] || fail "$(client stat b)"
client touch --ttl 2h a
[ "$(member a 'ttl_ms > 7000000')" = true ] || fail "touch --ttl: $(client stat a)"
client touch --ttl 30min b
client touch a b
[ "$(member a 'ttl_ms > 7000000')" = true ] || fail "touch: $(client stat a)"
[ "$(member b 'ttl_ms > 1700000 and .[0].ttl_ms <= 1800000')" = true ] || fail "$(client stat b)"
client copy --ttl 1h a c
[ "$(member c 'ttl_ms > 3000000 and .[0].ttl_ms <= 3600000')" = true ] || fail "$(client stat c)"
expect_error 1 '^rmem: touch: .*"missing"' client touch missing a
expect_error 2 '^rmem: put: --ttl: ' client put --ttl 0s a "$dir/old"
client touch --ttl 50ms c
gone()
{
	! client stat "$1" >/dev/null 2>&1
}
poll_await 20 gone c || fail "c does not expire"
ok "time to live"

# ---- stat, and JSON ----

client stat a b >"$dir/stat"
for line in 'name      a' 'bytes     100000 \(97.7 KiB\)' 'sessions  0' 'segments  1' \
	'name      b'; do
	grep -qE "^$line\$" "$dir/stat" || fail "stat lacks '$line': $(cat "$dir/stat")"
done
expect_error 1 '^rmem: stat: .*"missing"' client stat missing a
grep -q '^name      a$' "$dir/stdout" || fail "stat stopped at the first name"
client rm b
client put b "$dir/old"
for what in "ls --json" "stat --json a b"; do
	# shellcheck disable=SC2086 # words
	client $what >"$dir/json"
	jq -e 'sort_by(.name) | map(.name) == ["a", "b"]' "$dir/json" >/dev/null ||
		fail "$(cat "$dir/json")"
	# a member that both tools have has one type, and one value unless time changes it
	rmemctl --json leases | jq -e --slurpfile ours "$dir/json" '
		(.leases | map({key: .name, value: .}) | from_entries) as $theirs |
		[$ours[0][] | . as $o | $theirs[.name] as $t |
			to_entries[] | select(.key | in($t)) |
			(.value | type) == ($t[.key] | type) and
			(.value == $t[.key] or (.key | endswith("_ms")))] |
		length >= 12 and all' >/dev/null ||
		fail "rmem $what and rmemctl leases differ: $(cat "$dir/json")" \
			"$(rmemctl --json leases)"
done
client bench --json --size 4K --region 64K --duration 50ms >"$dir/json"
jq -e --arg fabric "$FABRIC" '.first_error == null and
	(.device | if $fabric == "tcp" then . == null else type == "string" end)' "$dir/json" \
	>/dev/null ||
	fail "$(cat "$dir/json")"
long=$(printf 'n%.0s' {1..250})
client mv b "$long"
[ "$(client ls -l | awk 'length > width { width = length } END { print width }')" -le 100 ] ||
	fail "ls -l is wider than 100 columns"
client ls -l | grep -qE 'n{20}\.\.\.$' || fail "ls -l: $(client ls -l)"
client ls -o wide | grep -qE "^ +SIZE .* ID  NAME\$" || fail "$(client ls -o wide)"
client ls -o wide | grep -q " $(member a id)  a\$" || fail "$(client ls -o wide)"
client ls -o wide | grep -q "  $long\$" || fail "$(client ls -o wide)"
client mv "$long" b
ok "stat and JSON"

# ---- mv, and --if-absent ----

client put b "$dir/new"
expect_error 1 '^rmem: mv: .*already' client mv --if-absent a b
client get b | cmp - "$dir/new" || fail "mv --if-absent changed the content"
client mv a b
stored b
client get b | cmp - "$dir/old" || fail "mv gave another content"
client mv b b
expect_error 1 '^rmem: mv: .*"missing"' client mv missing b
expect_error 1 '^rmem: put: "b" is stored already' client put --if-absent b "$dir/new"
expect_error 1 '^rmem: copy: "b" is stored already' client copy --if-absent b b
client get b | cmp - "$dir/old" || fail "put --if-absent changed the content"
# of two that begin while the name is free one succeeds
mkfifo "$dir/one" "$dir/two"
background one put --if-absent c "$dir/one"
first=$client_pid
background two put --if-absent c "$dir/two"
second=$client_pid
exec 7>"$dir/one" 8>"$dir/two"
status_await '.leases.ephemeral == 2' 20 || fail "the two do not begin"
cat "$dir/old" >&7
exec 7>&-
process_await "$first" 20 || fail "put --if-absent does not end"
[ "$process_status" -eq 0 ] || fail "put --if-absent: $(cat "$dir/one.err")"
cat "$dir/new" >&8
exec 8>&-
process_await "$second" 20 || fail "the second put --if-absent does not end"
[ "$process_status" -eq 1 ] || fail "the second put --if-absent ended with $process_status"
grep -q '^rmem: put: .*already' "$dir/two.err" || fail "$(cat "$dir/two.err")"
client get c | cmp - "$dir/old" || fail "the second put replaced the first"
ok "mv and --if-absent"

# ---- a part ----

for part in "0 1" "1 4096" "99999 1" "100000 0"; do
	read -r offset length <<<"$part"
	client get --offset "$offset" --length "$length" c "$dir/out"
	cmp <(tail -c "+$((offset + 1))" "$dir/old" | head -c "$length") "$dir/out" ||
		fail "get of $length bytes at $offset"
done
client get --offset 4K c | cmp - <(tail -c +4097 "$dir/old") || fail "get --offset"
for command in get crc; do
	expect_error 1 "^rmem: $command: --offset 100001 is beyond the lease of 100000" \
		client "$command" --offset 100001 c
	expect_error 1 "^rmem: $command: --length 2 at offset 99999 goes beyond" \
		client "$command" --offset 99999 --length 2 c
done
expect_error 1 'goes beyond' client get --length 200000 c "$dir/none"
[ ! -e "$dir/none" ] || fail "a get that fails creates a file"
ok "parts"

# ---- rm by pattern ----

for name in log/1 log/2 log/30 'log/*' other; do
	client put "$name" "$dir/old"
done
# a name with such characters is a name
client rm 'log/*'
stored b c log/1 log/2 log/30 other
expect_error 1 "^rmem: rm: 'log/\*' matches 3 names, and there is no terminal .*--force" \
	client rm 'log/*'
expect_error 1 "^rmem: rm: no name matches 'x\*'" client rm -y 'x*'
stored b c log/1 log/2 log/30 other
if command -v script >/dev/null; then
	# answered ANSWER: rm on a terminal, where the question gets this answer
	answered()
	{
		echo "$1" | script -qec "'$RMEM' -s '$uri' rm 'log/?'" /dev/null >"$dir/typescript"
	}
	! answered n || fail "rm without a yes succeeds: $(cat "$dir/typescript")"
	grep -q 'Remove 2 names?' "$dir/typescript" || fail "$(cat "$dir/typescript")"
	grep -q 'log/1' "$dir/typescript" ||
		fail "the names are not shown: $(cat "$dir/typescript")"
	stored b c log/1 log/2 log/30 other
	answered y || fail "$(cat "$dir/typescript")"
	stored b c log/30 other
fi
client rm --force 'log/[0-9]*' c
stored b other
client rm -y '*'
[ -z "$(client ls)" ] || fail "rm '*' left names"
lent_zero 20
ok "rm by pattern"

# ---- less output, less patience ----

client ping -q -c 2 -i 10ms >"$dir/ping"
! grep -q '^seq\|^rmem' "$dir/ping" || fail "$(cat "$dir/ping")"
grep -q '^2 sent, 2 answered$' "$dir/ping" || fail "$(cat "$dir/ping")"
kill -STOP "$server_pid"
expect_error 1 '^rmem: ls: .*within 300 ms' "$RMEM" -s "$uri" --timeout 300ms ls
kill -CONT "$server_pid"
ok "quiet and timeout"
server_stop
