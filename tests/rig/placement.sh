#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two NUMA nodes, and two soft-RoCE devices: a lease that is interleaved lies on both nodes in
# equal parts, and its bytes are right over RDMA and TCP; what a node has no room for goes
# elsewhere; and what was asked for and given is told.
#   RMEM_RIG_LEGS  on which kernel:device pairs, default 612:rxe
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

cat >"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
guest_install
before=$(rdma_objects)
cat >/tmp/rmemd.conf <<-CONF
	[server]
	listen = 10.9.0.1, 10.10.0.1
	insecure = yes
	[session]
	heartbeat = 5s
	fence = 60s
	[admin]
	socket = /tmp/admin.sock
	[pool near]
	node = 0
	size = 96M
	page_size = base
	[pool far]
	node = 1
	size = 64M
	page_size = base
CONF
server_start /tmp/rmemd.conf /tmp/admin.sock

# lies NAME FILTER: of the lease's element in JSON
lies()
{
	rmemctl --socket /tmp/admin.sock --json leases >/tmp/leases.json || fail leases
	jq -e --arg n "$1" ".leases[] | select(.name == \$n) | $2" /tmp/leases.json >/dev/null || {
		cat /tmp/leases.json >&2
		fail "$1 is not so: $2"
	}
}

# stored NAME FILE PLACE: over both fabrics and channels to one device and to both
stored()
{
	local uri
	for uri in "fabric=rdma&channels=4" "fabric=rdma" "fabric=tcp&channels=2"; do
		RMEM_SERVER="rmem://10.9.0.1?$uri" rmem -v put --place "$3" "$1" "$2" 2>/tmp/told ||
			fail "put over $uri: $(cat /tmp/told)"
		grep '^rmem: asked' /tmp/told || fail "nothing is told: $(cat /tmp/told)"
		for uri in "fabric=rdma&channels=3" "fabric=tcp"; do
			RMEM_SERVER="rmem://10.9.0.1?$uri" rmem get "$1" - | cmp - "$2" || fail "get over $uri"
		done
	done
}

head -c 40000000 /dev/urandom >/tmp/file
stored both /tmp/file interleave
rmemctl --socket /tmp/admin.sock leases
lies both '.placement == "interleave" and .node_asked == null and .segments == 16'
lies both '[.nodes[].node] == [0, 1] and (.nodes | map(.bytes) | add) == 40000000'
lies both '(.nodes[0].bytes - .nodes[1].bytes | fabs) < 4194304'
# it grows in stripes, too: from a pipe nobody knows how long it will be
cat /tmp/file | RMEM_SERVER="rmem://10.9.0.1?fabric=rdma" rmem put --place interleave both || fail pipe
RMEM_SERVER="rmem://10.9.0.1?fabric=tcp" rmem get both - | cmp - /tmp/file || fail "grown"
lies both '[.nodes[].node] == [0, 1] and (.nodes[0].bytes - .nodes[1].bytes | fabs) < 16777216'
RMEM_SERVER=rmem://10.9.0.1 rmem rm both || fail rm
# on the node that is asked for, and elsewhere when that is full
for node in 0 1; do
	RMEM_SERVER=rmem://10.9.0.1 rmem put --place "node:$node" "on$node" /tmp/file || fail put
	lies "on$node" ".node_asked == $node and [.nodes[].node] == [$node]"
done
RMEM_SERVER=rmem://10.9.0.1 rmem -v put --place node:1 over /tmp/file 2>/tmp/told || fail put
grep 'asked for on node 1, got .* on node 0' /tmp/told || fail "$(cat /tmp/told)"
lies over '.node_asked == 1 and [.nodes[].node] != [1]'
# half of it has no place on node 1: it gets less evenly, not refused
RMEM_SERVER=rmem://10.9.0.1 rmem rm over on0 || fail rm
cat /tmp/file /tmp/file >/tmp/more
stored uneven /tmp/file interleave
lies uneven '.placement == "interleave" and (.nodes | map(.bytes) | add) == 40000000'
RMEM_SERVER=rmem://10.9.0.1 rmem put --place interleave uneven /tmp/more || fail "uneven"
RMEM_SERVER="rmem://10.9.0.1?fabric=rdma&channels=2" rmem get uneven - | cmp - /tmp/more || fail "uneven"
lies uneven '.nodes[0].bytes > .nodes[1].bytes and (.nodes | map(.bytes) | add) == 80000000'
rmemctl --socket /tmp/admin.sock leases
RMEM_SERVER=rmem://10.9.0.1 rmem rm uneven on1 || fail rm

server_stop
rdma_idle "$before"
kernel_clean
CMD

for leg in $(legs 612:rxe); do
	echo "== kernel ${leg%:*}, ${leg#*:}"
	"$RIG" run --kernel "${leg%:*}" --device "${leg#*:}" --devices 2 --numa 2 --node-memory 1536,1536 \
		--timeout 300 "bash $WORK/cmd.sh $WORK" || {
		echo "FAILED on $leg: $?"
		exit 1
	}
done
