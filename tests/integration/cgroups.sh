#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The memory of a control group is limited: pools fit into what it leaves, and a pool that does not
# is refused in one line, at the start and by a reload.  The kernel kills nobody.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh" || exit 1
need jq
! sanitized || skip "a sanitizer takes memory of the group, too"

# Set `limit` to the name of the file, and `above` to the group of this test where groups may be
# made.
if own=$(grep -oP '^[0-9]+:([^:]*,)?memory(,[^:]*)?:\K.*' /proc/self/cgroup); then
	above=/sys/fs/cgroup/memory$own
	limit=memory.limit_in_bytes
else
	above=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
	limit=memory.max
	(echo +memory >"$above/cgroup.subtree_control") 2>/dev/null || true
fi
outer=${above%/}/rmem-test.$$
group=$outer/in
test_cleanup()
{
	rmdir "$group" "$outer" 2>/dev/null || true
}
mkdir "$outer" 2>/dev/null || skip "no control groups can be made in $above"
[ "$limit" != memory.max ] || (echo +memory >"$outer/cgroup.subtree_control") 2>/dev/null ||
	skip "control groups have no memory controller"
mkdir "$group"
[ -w "$group/$limit" ] || skip "memory is not limited by control groups"

# in_group COMMAND...: becomes the command, in the group
in_group()
{
	echo "$BASHPID" >"$group/cgroup.procs"
	exec "$@"
}

# grouped COMMAND...
grouped()
{
	(in_group "$@")
}

refused="300 MiB wanted, [0-9.]+ (B|KiB|MiB) available: $outer/$limit is 100 MiB, of which .*"
refused+=" are used and [0-9.]+ MiB are for rmemd itself"
refused+=": raise it \(MemoryMax= in a unit of systemd\), or make the pool smaller"

echo $((100 << 20)) >"$outer/$limit"
netns_exec=(in_group)
ports_choose

# ---- a size that does not fit ----

pool_size=300M
server_config
expect_error 1 "^error start-failed: pool 'small': $refused\$" \
	grouped "$RMEMD" --config "$dir/rmemd.conf"
grouped "$RMEMCTL" --json doctor -c "$dir/rmemd.conf" >"$dir/json" || true
jq -e --arg file "$outer/$limit" '.findings[] | select(.check == "huge-pages" and .level == "error")
	| (.text | test("needs 300 MiB, the limit of its control group leaves [0-9.]+ MiB$"))
	and .seen[0].source == $file and (.seen[0].value |
		test("^100 MiB; [0-9.]+ MiB are used or for rmemd itself$"))
	and (.fix[0] | test("^echo [0-9]+ >" + $file))' "$dir/json" >/dev/null ||
	fail "the doctor: $(cat "$dir/json")"

# ---- the size that fits, and a program that uses all of it ----

share="its share is of what $outer/$limit leaves, 8[0-9.]+ MiB"
for pool_size in auto 80M; do
	server_config
	server_restart
	[ "$pool_size" = 80M ] || log_await "^pool-ready: 4[0-9.]+ MiB .*$share" ||
		fail "$(cat "$server_log")"
	bytes=$(status_get .memory.bytes)
	make_file "$dir/in" $((bytes - 8192))
	client put all "$dir/in" || fail "no put of $bytes bytes"
	client get all "$dir/out"
	same "$dir/in" "$dir/out"
	client rm all
	rm "$dir/in" "$dir/out"
	ok "size = $pool_size: $bytes bytes"
	[ "$pool_size" = 80M ] || server_stop
done

# ---- a reload ----

sed -i 's/^size = 80M/size = 380M/' "$dir/rmemd.conf"
log_mark
kill -HUP "$server_pid"
log_await "^pool-not-grown: it stays at 80 MiB: $refused" || fail "$(cat "$server_log")"
sed -i 's/^size = 380M/size = 80M/' "$dir/rmemd.conf"
printf '[pool more]\nsize = 300M\npage_size = base\n' >>"$dir/rmemd.conf"
log_mark
kill -HUP "$server_pid"
log_await "^error pool-not-added: $refused.*pool=more" || fail "$(cat "$server_log")"
sed -i '/pool more/,$d' "$dir/rmemd.conf"
log_mark
kill -HUP "$server_pid"
log_await ^reloaded: || fail "no reload"
# the error was wanted
sed -i '/^error pool-not-added/d' "$server_log"
server_stop

[ ! -e "$group/memory.events" ] || grep -q '^oom_kill 0$' "$group/memory.events" ||
	fail "the kernel has killed"
