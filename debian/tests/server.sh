# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the tests: starts rmemd on loopback, apart from the service, with a small pool.  Sets
# SERVER, a URI, and ADMIN, the admin socket.
set -eu
cd "${AUTOPKGTEST_TMP:?}"
export SERVER="rmem://127.0.0.1:27460?fabric=tcp"
ADMIN=$AUTOPKGTEST_TMP/admin.sock
cat >rmemd.conf <<CONF
[server]
listen = 127.0.0.1
port = 27460
[rdma]
enabled = no
[tcp]
port = 27461
[admin]
socket = $ADMIN
[log]
target = stderr
[pool small]
size = 32M
page_size = base
CONF
rmemd --config rmemd.conf --check-config
rmemd --config rmemd.conf 2>rmemd.log &
rmemd_pid=$!
trap 'kill $rmemd_pid' EXIT
tries=0
until rmemctl --socket "$ADMIN" status >/dev/null 2>&1; do
	tries=$((tries + 1))
	if [ $tries -gt 300 ] || ! kill -0 $rmemd_pid; then
		cat rmemd.log
		exit 1
	fi
	sleep 0.2
done
