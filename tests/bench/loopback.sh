#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rmem bench over TCP on loopback; takes its options, such as --size 4K
# shellcheck source=tests/dev/lib/steps.sh
. "$(dirname "$0")/../dev/lib/steps.sh"
# shellcheck source=tests/dev/lib/server.sh
. "$(dirname "$0")/../dev/lib/server.sh"

case ${1-} in
-h | --help)
	sed -n '3s/^# //p' "$0"
	exit
	;;
esac
work_begin
server_start "$(pool_mib)"
for op in write read; do
	"$BUILD/src/rmem/rmem" --server "$SERVER" bench --op "$op" "$@"
done
server_stop
