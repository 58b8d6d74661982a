# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Devices that register 16 MiB at once: pools and leases that are longer work, in pieces; a lease of
# more pieces than one can have is refused.  A lease from before that has a longer piece, and a
# buffer of a program, cannot be registered: the error says so.
: "${top_srcdir:?}"
uri="rmem://$RIG_ADDR?fabric=rdma"
mkdir -m 700 /dev/shm/regions
config_write /tmp/rmemd.conf \
	"server: listen=$RIG_ADDR insecure=yes state=/dev/shm/regions" \
	"tcp: enabled=no" "pool main: size=160M page_size=base"
head -c 40000000 /dev/urandom >/tmp/large

# limit_set MIB: of what a device registers at once
limit_set()
{
	echo $(($1 << 20)) >/tmp/region-bytes
}

# start_limited MIB
start_limited()
{
	limit_set "$1"
	# shellcheck disable=SC2317 # called by server_start
	rmemd()
	{
		LD_PRELOAD=$BUILD/.libs/libregions.so RMEM_REGION_FILE=/tmp/region-bytes \
			exec "$(type -P rmemd)" "$@"
	}
	server_start /tmp/rmemd.conf
	unset -f rmemd
}

# segments NAME: the number of the lease's segments
segments()
{
	admin --json leases | jq -r --arg name "$1" '.leases[] | select(.name == $name) | .segments'
}

start_limited 16
expect_device ".can.max_mr_bytes == $((16 << 20))"
rmem -s "$uri" put large /tmp/large || fail put
[ "$(segments large)" = 3 ] || fail "$(admin leases)"
rmem -s "$uri" get large - | cmp - /tmp/large || fail get
# longer by the last piece and by more
cat /tmp/large /tmp/large >/tmp/larger
rmem -s "$uri" put larger /tmp/larger || fail put
[ "$(segments larger)" = 5 ] || fail "$(admin leases)"
rmem -s "$uri" get larger - | cmp - /tmp/larger || fail get
rmem -s "$uri" rm large larger || fail rm
server_stop

echo "-- more pieces than a lease can have"
start_limited 1
! rmem -s "$uri" put larger /tmp/larger 2>/tmp/err || fail "a lease of 77 pieces"
cat /tmp/err
text='an RDMA device here registers 1 MiB at once, and a lease takes at most 64 pieces'
grep -q "$text; ask for less" /tmp/err ||
	fail "the error does not name the limit"
rmem -s "$uri" put large /tmp/large || fail put
[ "$(segments large)" = 39 ] || fail "$(admin leases)"
rmem -s "$uri" get large - | cmp - /tmp/large || fail get
rmem -s "$uri" rm large || fail rm
server_stop

echo "-- a device that is back, and registers less"
start_limited 64
rmem -s "$uri" put large /tmp/large || fail put
[ "$(segments large)" = 1 ] || fail "$(admin leases)"
rmem -s "$uri" rm large || fail rm
limit_set 16
rdma link delete rxe0 || fail "rxe0 stays"
rdma link add rxe0 type rxe netdev dummy0 || fail "no device"
await 60 grep -q 'endpoint-news: .* serves now' /tmp/rmemd.log || fail "$(cat /tmp/rmemd.log)"
rmem -s "$uri" put large /tmp/large || fail put
[ "$(segments large)" = 3 ] || fail "$(admin leases)"
rmem -s "$uri" get large - | cmp - /tmp/large || fail get
rmem -s "$uri" rm large || fail rm
server_stop

echo "-- a piece from before"
server_start /tmp/rmemd.conf
rmem -s "$uri" put large /tmp/large || fail put
[ "$(segments large)" = 1 ] || fail "$(admin leases)"
server_stop
start_limited 16
! rmem -s "$uri" get large - >/tmp/out 2>/tmp/err || fail "the device registers more than it can"
cat /tmp/err
text='RDMA device rxe0 registers at most 16 MiB at once, and a piece of the lease has 38.1 MiB'
grep -q "$text: allocate the lease again" /tmp/err ||
	fail "the error does not name the limit"
rmem -s "$uri" rm large || fail rm
rmem -s "$uri" put large /tmp/large || fail put
rmem -s "$uri" get large - | cmp - /tmp/large || fail get
rmem -s "$uri" rm large || fail rm
server_stop
rm -r /dev/shm/regions
