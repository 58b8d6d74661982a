#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A build without RDMA (configure --with-rdma=no): who asks for it is told so, and all others use
# TCP.
export FABRIC=auto
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
why='this build has no RDMA: configure --with-rdma=link'

server_start
grep -q "rdma-missing: serving TCP only: $why" "$server_log" || fail "the log does not say it"
make_file "$dir/in" 3000000
client put a "$dir/in"
client get a "$dir/out"
same "$dir/in" "$dir/out"
client --verbose ls >"$dir/out" 2>&1
grep -qF "; no RDMA: $why" "$dir/out" || fail "the client does not say it: $(cat "$dir/out")"
ok "fabric=auto"

expect_error 1 "RDMA cannot be used: $why\$" "$RMEM" -s "rmem://$LISTEN:$port?fabric=rdma" ls
for command in status devices; do
	rmemctl "$command" >"$dir/out"
	grep -q "^rdma  *not serving: $why\$" "$dir/out" ||
		fail "rmemctl $command: $(cat "$dir/out")"
done
"$RMEM" doctor "rmem://$LISTEN:$port?fabric=rdma" >"$dir/out" && fail "nothing is wrong"
grep -q "^error  *rdma-device  *$why\$" "$dir/out" || fail "rmem doctor: $(cat "$dir/out")"
rmemctl doctor --config "$dir/rmemd.conf" >"$dir/out" && fail "nothing is wrong"
grep -q "^warning  *rdma-device  *$why\$" "$dir/out" || fail "rmemctl doctor: $(cat "$dir/out")"
ok "status, devices and doctors"
server_stop

FABRIC=rdma server_config
expect_error 1 "start-failed: $why\$" "$RMEMD" --config "$dir/rmemd.conf"
