# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Channels without rdma_cm (connect = direct): the real programs, clients and channels that die,
# chosen GIDs and partitions.
: "${top_srcdir:?}"
uri="rmem://$RIG_ADDR?fabric=rdma"
head -c 3000000 /dev/urandom >/tmp/file

# conf LINES: the daemon's configuration, with these lines in [rdma]
conf()
{
	cat >/tmp/rmemd.conf <<-CONF
		[server]
		listen = $RIG_ADDR
		insecure = yes
		[admin]
		socket = /tmp/admin.sock
		[pool main]
		size = 64M
		[rdma]
		enabled = yes
		$1
	CONF
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

# server_qps: the number of the daemon's queue pairs
server_qps()
{
	rdma resource show qp | grep -c "comm rmemd"
}

# server_qps_await -ge|-eq N: until their number is that
server_qps_await()
{
	local i
	for ((i = 0; i < 300; i++)); do
		test "$(server_qps)" "$1" "$2" && return
		sleep 0.1
	done
	rdma resource show qp
	fail "the daemon's queue pairs are not $*"
}

conf "connect = direct"
server_start /tmp/rmemd.conf /tmp/admin.sock
grep -F "rdma directly on rxe0" /tmp/rmemd.log || fail "the log does not name the device"
! rdma resource show cm_id | grep LISTEN || fail "an rdma_cm identifier listens"
rmemctl --socket /tmp/admin.sock devices | grep -F "  connect direct" || fail "rmemctl"
rmem put --server "$uri" thing /tmp/file || fail "put"
rmem get --server "$uri&channels=4&connect=direct" thing /tmp/copy || fail "get"
cmp /tmp/file /tmp/copy || fail "get returned other bytes"
refused "with connect = direct, not cm" rmem get --server "$uri&connect=cm" thing /tmp/copy

# the client chooses its GID by index, and the one partition; neither exists otherwise
index=$(rmemctl --socket /tmp/admin.sock --json devices |
	jq '.devices[0].device_port.gids[] | select(.served).index')
rmem get --server "$uri&gid_index=$index&pkey=0xffff" thing /tmp/copy || fail "gid_index"
refused "there is no GID 77" rmem get --server "$uri&gid_index=77" thing /tmp/copy
refused "has no P_Key 0x8001" rmem get --server "$uri&pkey=0x8001" thing /tmp/copy

# a client that is killed cannot disconnect; nothing of it stays
rmem bench --server "$uri" --region 1M --duration 60s >/dev/null 2>&1 &
client=$!
server_qps_await -ge 2
kill -KILL $client
wait $client
server_qps_await -eq 0
server_stop
rdma_idle "${before:?}"

# a GID that is not the one of the address
conf "connect = direct
gid_index = 0"
server_start /tmp/rmemd.conf /tmp/admin.sock
rmemctl --socket /tmp/admin.sock --json devices |
	jq -e '.devices[0] | .port == null and .knobs.gid_index == 0 and
	       ([.device_port.gids[] | select(.served).index] == [0])' || fail "gid_index = 0"
rmem put --server "$uri&gid_index=0" thing /tmp/file || fail "put by GID 0"
server_stop
conf "connect = direct
pkey = 0x8001"
refused "RDMA device rxe0, port 1 has no P_Key 0x8001" rmemd --config /tmp/rmemd.conf
conf "gid_index = 0"
refused "gid_index and pkey are for connect = direct" rmemd --config /tmp/rmemd.conf
rdma_idle "${before:?}"

export CONNECT=direct
for test in integration/kill integration/isolation integration/soak fault/channels; do
	echo "-- $test"
	bash "$top_srcdir/tests/$test.sh" || fail "$test"
	rdma_idle "${before:?}"
done
