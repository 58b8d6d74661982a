# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Control groups that limit huge pages, of version 2: pools fit into what they leave.  The advice is
# never to reserve fewer pages than the host has.
top=/sys/fs/cgroup
outer=$top/rmem-test
group=$outer/in
free=/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages
before=$(cat $free)
echo '+memory +hugetlb' >$top/cgroup.subtree_control ||
	fail "no controllers: $(cat $top/cgroup.controllers)"
mkdir $outer
echo '+memory +hugetlb' >$outer/cgroup.subtree_control || fail "no controllers"
mkdir $group

# refuse SECTION PATTERN: rmemd does not start in the group, and says why; no page is lost
refuse()
{
	config_write /tmp/cgroup.conf "server: listen=$RIG_ADDR insecure=yes" "$1"
	(echo "$BASHPID" >$group/cgroup.procs; exec timeout 60 rmemd --config /tmp/cgroup.conf) \
		>/tmp/cgroup.log 2>&1 && fail "it starts"
	grep start-failed /tmp/cgroup.log
	grep -qE "start-failed: .*$2" /tmp/cgroup.log || fail "no '$2': $(cat /tmp/cgroup.log)"
	[ "$(cat $free)" = "$before" ] || fail "$(cat $free) pages are free, were $before"
}

for file in hugetlb.2MB.max hugetlb.2MB.rsvd.max; do
	echo 32M >$outer/$file
	text="$outer/$file is 32 MiB, of which 0 B are used"
	refuse "pool a: node=0 size=64M page_size=2M" \
		"64 MiB wanted, 32 MiB available: $text: raise it,"
	# all that is left
	config_write /tmp/cgroup.conf "server: listen=$RIG_ADDR insecure=yes" \
		"pool a: size=auto page_size=2M"
	# shellcheck disable=SC2317 # called by server_start
	rmemd()
	{
		echo "$BASHPID" >"$group/cgroup.procs"
		exec "$(type -P rmemd)" "$@"
	}
	server_start /tmp/cgroup.conf
	unset -f rmemd
	admin --json pools | jq -e '.pools[0].bytes == 33554432' >/dev/null || fail "$(admin pools)"
	grep "^pool-ready: 32 MiB .*its share is of what $outer/$file leaves, 32 MiB" \
		/tmp/rmemd.log ||
		fail "$(cat /tmp/rmemd.log)"
	server_stop
	echo max >$outer/$file
done

echo 100M >$outer/memory.max
text="300 MiB wanted, [0-9.]+ MiB available: $outer/memory.max is 100 MiB, .* are for rmemd itself"
refuse "pool a: size=300M page_size=base" "$text: raise it"
echo max >$outer/memory.max
echo 100M >$outer/memory.high
refuse "pool a: size=300M page_size=base" "$outer/memory.high is 100 MiB, .*MemoryHigh="
grep -q '^oom_kill 0$' $outer/memory.events || fail "the kernel has killed"
rmdir $group $outer || fail "rmdir"
echo '-memory -hugetlb' >$top/cgroup.subtree_control
