#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A client is killed at every step that the server or the kernel can notice.  The server serves
# the next client, and no lease and no session is left.
#   RMEM_KILL_STRIDE  only every n-th step, default 1
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh" || exit 1
need jq

# the connection of a killed client ends at once; a traced client is slow and must not be fenced
fence=30s
grace=100ms
stride=${RMEM_KILL_STRIDE:-1}
killstep=$(built tests/fault/killstep)
hello=$(built src/examples/hello)

server_start
step=1
last=
while true; do
	status=0
	# the leak check does not work in a traced program; the daemon has it
	ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" timeout -k 5 $((60 * patience)) \
		"$killstep" "$step" "$hello" "$uri" >"$dir/step" 2>&1 || status=$?
	case $status in
	0) last=$(tail -n 1 "$dir/step") ;;
	2) skip "no ptrace here: $(cat "$dir/step")" ;;
	3) break ;;
	*) fail "step $step: status $status: $(cat "$dir/step")" ;;
	esac
	kill -0 "$server_pid" || fail "the daemon died at step $step"
	step=$((step + stride))
done
[ "$step" -gt 30 ] || fail "only $step steps were seen"
ok "killed at steps 1 to $step, one in $stride; $last"
"$hello" "$uri" || fail "the next client is not served"
status_await '.memory.lent_bytes == 0 and .sessions.active + .sessions.fenced == 0' 20 ||
	fail "a lease or a session is left"
server_stop
