#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Over iWARP, whose connections are TCP's, a client connects though many of the ports that
# rdma_cm may choose from are TCP's already.
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

cat >"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
guest_install
cat >/tmp/rmemd.conf <<-CONF
	[server]
	listen = $RIG_ADDR
	insecure = yes
	[rdma]
	enabled = yes
	[admin]
	socket = /tmp/admin.sock
	[pool main]
	size = 16M
CONF
before=$(rdma_objects)
server_start /tmp/rmemd.conf /tmp/admin.sock
echo 40000 40127 >/proc/sys/net/ipv4/ip_local_port_range || fail "the range"
# rmemd ends a connection that says nothing, but this end of it stays until it is closed
for ((i = 0; i < 48; i++)); do
	exec {fd}<>"/dev/tcp/$RIG_ADDR/7460" || fail "connection $i"
done
ss -tan "src $RIG_ADDR and sport >= 40000 and sport < 40128" | wc -l
head -c 1000000 /dev/urandom >/tmp/file
for ((i = 0; i < 4; i++)); do
	uri="rmem://$RIG_ADDR?fabric=rdma&channels=8"
	rmem put --server "$uri" thing /tmp/file || fail "put"
	rmem get --server "$uri" thing /tmp/copy || fail "get"
	cmp /tmp/file /tmp/copy || fail "it is not what was put there"
	rmem rm --server "$uri" thing || fail "rm"
done
server_stop
rdma_idle "$before"
kernel_clean
CMD

for leg in $(legs 612:siw); do
	[ "${leg#*:}" = siw ] || continue
	echo "== kernel ${leg%:*}, ${leg#*:}"
	"$RIG" run --kernel "${leg%:*}" --device "${leg#*:}" --timeout 120 \
		"bash $WORK/cmd.sh $WORK" || {
		echo "FAILED on $leg: $?"
		exit 1
	}
done
