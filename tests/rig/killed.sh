#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Over RDMA: a client killed at every step that the server or the kernel can notice, by
# number; then the server killed in mid transfer.  The server goes on serving, nothing is
# left lent or registered, the client ends with a clear error.
# RMEM_KILL_STRIDE (default 7) of the steps are tried, from 1 on; 1 tries all.
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

cat >"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
stride=$2
guest_install
cat >/tmp/rmemd.conf <<-CONF
	[server]
	listen = $RIG_ADDR
	insecure = yes
	[session]
	heartbeat = 200ms
	fence = 1s
	grace = 100ms
	[verbs]
	enable = yes
	[admin]
	socket = /tmp/admin.sock
	[pool main]
	size = 64M
	page_size = base
CONF
before=$(rdma_objects)
server_start /tmp/rmemd.conf /tmp/admin.sock
uri="rmem://$RIG_ADDR?fabric=rdma"
step=1
while true; do
	status=0
	timeout 60 "$BUILD/tests/fault/killstep" "$step" "$BUILD/src/examples/hello" "$uri" \
		>/tmp/step.log 2>&1 || status=$?
	[ "$status" -ne 3 ] || break
	[ "$status" -eq 0 ] || { cat /tmp/step.log; fail "step $step: status $status"; }
	last=$(tail -n 1 /tmp/step.log)
	step=$((step + stride))
done
[ "$step" -gt 50 ] || fail "only $step steps"
echo "clients killed at every ${stride}th of $step steps; last: $last"
"$BUILD/src/examples/hello" "$uri" || fail "the next client is not served"
for ((i = 0; i < 150; i++)); do
	rmemctl --socket /tmp/admin.sock --json status >/tmp/status
	jq -e '.lent_bytes == 0 and .sessions == 0' /tmp/status >/dev/null && break
	sleep 0.1
done
[ "$i" -lt 150 ] || { cat /tmp/status; tail -n 30 /tmp/rmemd.log; fail "memory is still lent"; }

# the server dies under a transfer
"$BUILD/tests/integration/soak" "$uri" 60 1 16 >/tmp/soak.log 2>&1 &
soak=$!
sleep 3
kill -9 "$SERVER_PID"
status=0
timeout 90 tail --pid="$soak" -f /dev/null || fail "the client hangs"
wait "$soak" || status=$?
cat /tmp/soak.log
[ "$status" -eq 1 ] || fail "the client ended with $status"
grep -q '^soak: ' /tmp/soak.log && ! grep -q MISMATCH /tmp/soak.log || fail "no clear error"
wait "$SERVER_PID"
rm -f /tmp/admin.sock
server_start /tmp/rmemd.conf /tmp/admin.sock
"$BUILD/src/examples/hello" "$uri" || fail "the server started anew does not serve"
server_stop
rdma_idle "$before"
kernel_clean
CMD

for leg in $(legs 612:rxe); do
	echo "== kernel ${leg%:*}, ${leg#*:}"
	"$RIG" run --kernel "${leg%:*}" --device "${leg#*:}" --timeout 280 \
		"bash $WORK/cmd.sh $WORK ${RMEM_KILL_STRIDE:-7}" || {
		echo "FAILED on $leg: $?"
		exit 1
	}
done
