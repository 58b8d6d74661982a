#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A client killed at every step that the server or the kernel can notice, by step number.
# The server goes on serving, and nothing is left lent or registered.
#   RMEM_KILL_STRIDE  try every n-th step; default 1: all
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh" || exit 1
need jq

# a killed client's connection ends with it; one that is only traced, and slow, must not be
# given up
fence=30s
grace=100ms
stride=${RMEM_KILL_STRIDE:-1}
killstep=$top_builddir/tests/fault/killstep

# libtool's wrapper would count as steps; the program behind it does not
hello=$EXAMPLES/.libs/hello
[ -x "$hello" ] || hello=$EXAMPLES/hello
export LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

server_start
step=1
last=
while true; do
	status=0
	# a leak check cannot look at a client that is traced; the daemon's goes on
	ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" timeout -k 5 60 \
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
"$EXAMPLES/hello" "$uri" || fail "the next client is not served"
status_await '.memory.lent_bytes == 0 and .sessions.active + .sessions.fenced == 0' 20 || fail "not back to nothing"
server_stop
