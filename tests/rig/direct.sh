#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Channels without rdma_cm: the real programs over soft-RoCE with connect = direct, clients
# and channels that die, GIDs and partitions of choice; and iWARP's refusal.
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

cat >"$WORK/env" <<ENV
export top_srcdir=$top_srcdir top_builddir=$top_builddir FABRIC=rdma
export RMEM_SOAK_SECONDS=${RMEM_SOAK_SECONDS:-5} RMEM_DEATHS=${RMEM_DEATHS:-20}
export RMEM_SOAK_SEED=${RMEM_SOAK_SEED:-$RANDOM}
ENV
cat >"$WORK/start.sh" <<'START'
. "$1/guest.sh"
. "$1/env"
guest_install
# conf LINES: the daemon's configuration, with these in [rdma]
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
START

cat >"$WORK/rxe.sh" <<'RXE'
. "$1/start.sh"
uri="rmem://$RIG_ADDR?fabric=rdma"
before=$(rdma_objects)
head -c 3000000 /dev/urandom >/tmp/file

# said TEXT CMD...: CMD fails, and says so
said()
{
	local text=$1
	shift
	! "$@" >/tmp/said 2>&1 || fail "it works: $*"
	grep -qF -- "$text" /tmp/said || { cat /tmp/said >&2; fail "not said: $text"; }
	echo "said: $(cat /tmp/said)"
}

conf "connect = direct"
server_start /tmp/rmemd.conf /tmp/admin.sock
grep -F "rdma directly on rxe0" /tmp/rmemd.log || fail "the log does not say so"
! rdma resource show cm_id | grep LISTEN || fail "somebody listens"
rmemctl --socket /tmp/admin.sock devices | grep -F "  connect direct" || fail "rmemctl"
rmem put --server "$uri" thing /tmp/file || fail "put"
rmem get --server "$uri&channels=4&connect=direct" thing /tmp/copy || fail "get"
cmp /tmp/file /tmp/copy || fail "it is not what was put there"
said "with connect = direct, not cm" rmem get --server "$uri&connect=cm" thing /tmp/copy

# the client's GID by its index, and none that is not there; the one partition there is
index=$(rmemctl --socket /tmp/admin.sock --json devices |
	jq '.devices[0].device_port.gids[] | select(.served).index')
rmem get --server "$uri&gid_index=$index&pkey=0xffff" thing /tmp/copy || fail "gid_index"
said "there is no GID 77" rmem get --server "$uri&gid_index=77" thing /tmp/copy
said "has no P_Key 0x8001" rmem get --server "$uri&pkey=0x8001" thing /tmp/copy

# a client that is killed leaves nothing behind, though nobody disconnects
rmem bench --server "$uri" --region 1M --duration 60s >/dev/null 2>&1 &
client=$!
for ((i = 0; i < 300; i++)); do
	[ "$(rdma resource show qp | grep -c "comm rmemd")" -ge 2 ] && break
	sleep 0.1
done
[ "$(rdma resource show qp | grep -c "comm rmemd")" -ge 2 ] || fail "no queue pairs"
kill -KILL $client
wait $client
for ((i = 0; i < 100; i++)); do
	rdma resource show qp | grep -q "comm rmemd" || break
	sleep 0.1
done
! rdma resource show qp | grep "comm rmemd" || fail "queue pairs are left"
server_stop
rdma_idle "$before"

# another GID than that of the address
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
said "RDMA device rxe0, port 1 has no P_Key 0x8001" rmemd --config /tmp/rmemd.conf
conf "gid_index = 0"
said "gid_index and pkey are for connect = direct" rmemd --config /tmp/rmemd.conf
rdma_idle "$before"

export LISTEN=$RIG_ADDR CONNECT=direct
for test in integration/kill integration/isolation integration/soak fault/channels; do
	echo "-- $test"
	bash "$top_srcdir/tests/$test.sh" || fail "$test"
	rdma_idle "$before"
done
kernel_clean
RXE

cat >"$WORK/siw.sh" <<'SIW'
. "$1/start.sh"
conf "connect = direct"
! rmemd --config /tmp/rmemd.conf >/tmp/said 2>&1 || fail "iWARP is served"
grep "RDMA device siw0: iWARP cannot connect without rdma_cm" /tmp/said || {
	cat /tmp/said >&2
	fail "not refused by name"
}
SIW

for leg in $(legs 612:rxe 612:siw); do
	echo "== kernel ${leg%:*}, ${leg#*:}"
	"$RIG" run --kernel "${leg%:*}" --device "${leg#*:}" --timeout 600 \
		"bash $WORK/${leg#*:}.sh $WORK" || {
		echo "FAILED on $leg: $?"
		exit 1
	}
done
