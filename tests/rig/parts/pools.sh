# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# A reload adds a pool, and a program has leases in it over RDMA.  While the pool is leaving they
# stay reachable; with the last one the pool is removed, and its memory regions are gone.
pools_file=/tmp/pools.conf
configure()
{
	config_write "$pools_file" "server: listen=10.9.0.1 insecure=yes" "tcp: enabled=no" \
		"pool low: size=32M page_size=base" "$@"
}

# pool FILTER: what jq finds in the pool "high"
pool()
{
	admin --json pools | jq -r "[.pools[] | select(.name == \"high\")] | first | $1"
}

has_event()
{
	tail -n "+$mark" /tmp/rmemd.log | grep -E "^(error )?$1: .*pool=high" >/dev/null
}

# event NAME: wait until the log has it, behind the mark
event()
{
	await 60 has_event "$1" || fail "no event $1: $(tail -n 5 /tmp/rmemd.log)"
}

# reload SECTION...
reload()
{
	configure "$@"
	mark=$(($(wc -l </tmp/rmemd.log) + 1))
	admin reload || fail "reload"
}

has_printed()
{
	[ "$(grep -cE "^$2\$" /tmp/printed)" -ge "$1" ]
}

# printed N LINE: wait until the program has printed the line N times
printed()
{
	await 60 has_printed "$@" || fail "not $1 times '$2': $(cat /tmp/printed)"
}

# regions: memory regions in the kernel
regions()
{
	rdma resource show | grep -o ' mr [0-9]*' | awk '{ n += $2 } END { print n }'
}

configure
server_start "$pools_file"
for round in 1 2; do
	reload "pool high: size=96M page_size=base"
	event pool-added
	[ "$(pool .state)" = ready ] || fail "$(admin pools)"
	rm -f /tmp/to && mkfifo /tmp/to
	sent=$(packets rxe0)
	LD_LIBRARY_PATH=$BUILD/.libs "$BUILD/tests/integration/.libs/resize" \
		'rmem://10.9.0.1?fabric=rdma' keep 4 $((4 << 20)) </tmp/to >/tmp/printed 2>&1 &
	program=$!
	exec {to}>/tmp/to
	printed 1 ready
	[ "$(pool .lent_bytes)" -eq $((16 << 20)) ] ||
		fail "its leases are elsewhere: $(admin pools)"
	[ $(($(packets rxe0) - sent)) -gt 1000 ] || fail "it did not write over RDMA"
	reload
	event pool-leaving
	printed 4 'wanted 4194304 0'
	[ "$(pool .state)" = leaving ] || fail "$(admin pools)"
	sent=$(packets rxe0)
	echo check >&"$to"
	printed 1 'good 4'
	[ $(($(packets rxe0) - sent)) -gt 1000 ] || fail "it did not read over RDMA"
	before_end=$(regions)
	for lease in $(admin --json leases | jq -r '.leases[].id'); do
		admin revoke "$lease" || fail "revoke"
	done
	event pool-removed
	printed 4 ended
	echo check >&"$to"
	printed 1 'good 0'
	[ "$(regions)" -eq $((before_end - 4)) ] ||
		fail "of $before_end memory regions $(regions) are left"
	[ "$(pool .state)" = null ] || fail "$(admin pools)"
	echo "round $round: $before_end memory regions, then $(regions)"
	echo end >&"$to"
	exec {to}>&-
	wait "$program" || fail "the program: $(cat /tmp/printed)"
done
server_stop
