# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Channels without rdma_cm (connect = direct): the programs, clients that are killed, channels that
# break, GIDs and partitions that the client or the daemon chooses.
: "${top_srcdir:?}"
uri="rmem://$RIG_ADDR?fabric=rdma"
head -c 3000000 /dev/urandom >/tmp/file

# conf KEYS: write the daemon's configuration with these keys in [rdma]
conf()
{
	config_write /tmp/rmemd.conf \
		"server: listen=$RIG_ADDR insecure=yes" \
		"pool main: size=64M" \
		"rdma: enabled=yes $1"
}

# refused TEXT CMD...: CMD fails, and its output contains TEXT
refused()
{
	local text=$1
	shift
	! "$@" >/tmp/output 2>&1 || fail "not refused: $*"
	grep -qF -- "$text" /tmp/output || { cat /tmp/output >&2; fail "the output lacks: $text"; }
	echo "refused: $(cat /tmp/output)"
}

# server_qps -ge|-eq N: compare the number of the daemon's queue pairs
server_qps()
{
	test "$(rdma resource show qp | grep -c "comm rmem-channel")" "$1" "$2"
}

# server_qps_await -ge|-eq N
server_qps_await()
{
	! await 30 server_qps "$@" || return 0
	rdma resource show qp
	fail "the number of the daemon's queue pairs is not $*"
}

conf connect=direct
server_start /tmp/rmemd.conf
grep -F "rdma directly on rxe0" /tmp/rmemd.log || fail "the log does not name the device"
! rdma resource show cm_id | grep LISTEN || fail "an rdma_cm identifier listens"
admin devices | grep -F "  connect direct" || fail "rmemctl"
rmem put --server "$uri" thing /tmp/file || fail "put"
rmem get --server "$uri&channels=4&connect=direct" thing /tmp/copy || fail "get"
cmp /tmp/file /tmp/copy || fail "get returned other bytes"
refused "with connect = direct, not cm" rmem get --server "$uri&connect=cm" thing /tmp/copy

# the client chooses a GID by its index and a partition; an index or partition that does not exist
# is refused
index=$(admin --json devices |
	jq '.devices[0].device_port.gids[] | select(.served).index')
rmem get --server "$uri&gid_index=$index&pkey=0xffff" thing /tmp/copy || fail "gid_index"
refused "there is no GID 77" rmem get --server "$uri&gid_index=77" thing /tmp/copy
refused "has no P_Key 0x8001" rmem get --server "$uri&pkey=0x8001" thing /tmp/copy

# a client that is killed does not disconnect; the daemon destroys its queue pairs
rmem bench --server "$uri" --region 1M --duration 60s >/dev/null 2>&1 &
client=$!
server_qps_await -ge 2
kill -KILL $client
wait $client
server_qps_await -eq 0
server_stop
rdma_idle "${before:?}"

# a GID other than that of the address
conf "connect=direct gid_index=0"
server_start /tmp/rmemd.conf
admin --json devices |
	jq -e '.devices[0] | .port == null and .knobs.gid_index == 0 and
	       ([.device_port.gids[] | select(.served).index] == [0])' || fail "gid_index = 0"
rmem put --server "$uri&gid_index=0" thing /tmp/file || fail "put by GID 0"
server_stop
conf "connect=direct pkey=0x8001"
refused "RDMA device rxe0, port 1 has no P_Key 0x8001" rmemd --config /tmp/rmemd.conf
conf gid_index=0
refused "gid_index and pkey are for connect = direct" rmemd --config /tmp/rmemd.conf
rdma_idle "${before:?}"

export CONNECT=direct
for test in integration/kill integration/isolation integration/soak fault/channels; do
	echo "-- $test"
	bash "$top_srcdir/tests/$test.sh" || fail "$test"
	rdma_idle "${before:?}"
done
