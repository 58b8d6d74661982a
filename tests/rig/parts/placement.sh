# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Two NUMA nodes and two devices: an interleaved lease has equal parts on both nodes, and its bytes
# are right over RDMA and TCP; a lease that does not fit on its node is placed on the other one;
# the tool prints the requested and the granted placement.
config_write /tmp/rmemd.conf \
	"server: listen=10.9.0.1,10.10.0.1 insecure=yes" \
	"session: heartbeat=5s fence=60s" \
	"pool near: node=0 size=96M page_size=base" \
	"pool far: node=1 size=64M page_size=base"
server_start /tmp/rmemd.conf

# placed NAME FILTER: the lease in the JSON output satisfies a filter of jq
placed()
{
	admin --json leases >/tmp/leases.json || fail leases
	jq -e --arg n "$1" ".leases[] | select(.name == \$n) | $2" /tmp/leases.json >/dev/null || {
		cat /tmp/leases.json >&2
		fail "lease $1 does not satisfy: $2"
	}
}

# store NAME FILE PLACE: put the file over each fabric, with channels to one device and to both, and
# get it over each fabric
store()
{
	local uri from
	for uri in "fabric=rdma&channels=4" "fabric=rdma" "fabric=tcp&channels=2"; do
		RMEM_SERVER="rmem://10.9.0.1?$uri" rmem -v put --place "$3" "$1" "$2" \
			2>/tmp/printed ||
			fail "put over $uri: $(cat /tmp/printed)"
		grep '^rmem: asked' /tmp/printed ||
			fail "the placement is not printed: $(cat /tmp/printed)"
		for from in "fabric=rdma&channels=3" "fabric=tcp"; do
			RMEM_SERVER="rmem://10.9.0.1?$from" rmem get "$1" - | cmp - "$2" ||
				fail "get over $from"
		done
	done
}

head -c 40000000 /dev/urandom >/tmp/file
store both /tmp/file interleave
admin leases
placed both '.placement == "interleave" and .node_asked == null and .segments == 16'
placed both '[.nodes[].node] == [0, 1] and (.nodes | map(.bytes) | add) == 40000000'
placed both '(.nodes[0].bytes - .nodes[1].bytes | fabs) < 4194304'
# a lease that grows, as for a pipe of unknown length, stays interleaved
# shellcheck disable=SC2002 # a pipe is intended
cat /tmp/file | RMEM_SERVER="rmem://10.9.0.1?fabric=rdma" rmem put --place interleave both ||
	fail pipe
RMEM_SERVER="rmem://10.9.0.1?fabric=tcp" rmem get both - | cmp - /tmp/file || fail "grown"
placed both '[.nodes[].node] == [0, 1] and (.nodes[0].bytes - .nodes[1].bytes | fabs) < 16777216'
RMEM_SERVER=rmem://10.9.0.1 rmem rm both || fail rm
# on the requested node, and on the other one when that is full
for node in 0 1; do
	RMEM_SERVER=rmem://10.9.0.1 rmem put --place "node:$node" "on$node" /tmp/file || fail put
	placed "on$node" ".node_asked == $node and [.nodes[].node] == [$node]"
done
RMEM_SERVER=rmem://10.9.0.1 rmem -v put --place node:1 over /tmp/file 2>/tmp/printed || fail put
grep 'asked for on node 1, got .* on node 0' /tmp/printed || fail "$(cat /tmp/printed)"
placed over '.node_asked == 1 and [.nodes[].node] != [1]'
# half of the lease does not fit on node 1, so the parts are unequal
RMEM_SERVER=rmem://10.9.0.1 rmem rm over on0 || fail rm
cat /tmp/file /tmp/file >/tmp/more
store uneven /tmp/file interleave
placed uneven '.placement == "interleave" and (.nodes | map(.bytes) | add) == 40000000'
RMEM_SERVER=rmem://10.9.0.1 rmem put --place interleave uneven /tmp/more || fail "uneven"
RMEM_SERVER="rmem://10.9.0.1?fabric=rdma&channels=2" rmem get uneven - | cmp - /tmp/more ||
	fail "uneven"
placed uneven '.nodes[0].bytes > .nodes[1].bytes and (.nodes | map(.bytes) | add) == 80000000'
admin leases
RMEM_SERVER=rmem://10.9.0.1 rmem rm uneven on1 || fail rm

server_stop
