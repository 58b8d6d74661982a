#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two clients, 64 leases each, over RDMA: random sizes and offsets, every byte checked.
# RMEM_SOAK_SECONDS (default 20) and RMEM_SOAK_SEED choose length and seed.
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage
seconds=${RMEM_SOAK_SECONDS:-20}
seed=${RMEM_SOAK_SEED:-$((RANDOM * 32768 + RANDOM))}
echo "seed $seed, $seconds s"

cat >"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
seconds=$2 seed=$3
guest_install
cat >/tmp/rmemd.conf <<-CONF
	[server]
	listen = $RIG_ADDR
	insecure = yes
	[verbs]
	enable = yes
	[admin]
	socket = /tmp/admin.sock
	[pool main]
	size = 300M
	page_size = base
CONF
before=$(rdma_objects)
server_start /tmp/rmemd.conf /tmp/admin.sock
uri="rmem://$RIG_ADDR?fabric=rdma&channels=2"
"$BUILD/tests/integration/soak" "$uri" "$seconds" "$seed" &
first=$!
"$BUILD/tests/integration/soak" "$uri" "$seconds" "$((seed + 1))" &
wait "$!" || fail "second client"
wait "$first" || fail "first client"
for ((i = 0; i < 100; i++)); do
	rmemctl --socket /tmp/admin.sock --json status >/tmp/status
	jq -e '.lent_bytes == 0 and .sessions == 0' /tmp/status >/dev/null && break
	sleep 0.1
done
[ "$i" -lt 100 ] || { cat /tmp/status; fail "memory is still lent"; }
server_stop
rdma_idle "$before"
kernel_clean
CMD

for leg in $(legs 612:rxe); do
	echo "== kernel ${leg%:*}, ${leg#*:}"
	"$RIG" run --kernel "${leg%:*}" --device "${leg#*:}" --memory 2048 \
		--timeout $((seconds * 2 + 120)) "bash $WORK/cmd.sh $WORK $seconds $seed" || {
		echo "FAILED on $leg: $?"
		exit 1
	}
done
