#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two soft-RoCE devices in one machine: a queue of 2, 4 or 8 channels loads both evenly, to
# 5 %, by the packets that the devices count; one channel is on one device.
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
	[pool main]
	size = 128M
CONF
server_start /tmp/rmemd.conf /tmp/admin.sock
rmemctl --socket /tmp/admin.sock devices

# load OP SIZE CHANNELS
load()
{
	local a b megabytes
	a=$(packets rxe0) b=$(packets rxe1)
	megabytes=$(timeout 100 rmem --server "rmem://10.9.0.1?fabric=rdma&channels=$3" \
		bench --op "$1" --size "$2" --depth 64 --batch 32 --duration 1500ms \
		--region 64M --json | jq -r '.bytes_per_second / 1e6') || fail "bench"
	a=$(($(packets rxe0) - a)) b=$(($(packets rxe1) - b))
	awk -v op="$1" -v size="$2" -v n="$3" -v a="$a" -v b="$b" -v mbs="$megabytes" 'BEGIN {
		share = 2 * a / (a + b)
		printf "%-5s %4s, %d channels: rxe0 %6d rxe1 %6d packets, rxe0 has %.3f of its half, %.1f MB/s\n",
			op, size, n, a, b, share, mbs
		if (n == 1)
			exit !(a + b > 100 && (a < 50 || b < 50))
		exit !(a + b > 100 && share > 0.95 && share < 1.05) }' ||
		fail "the devices are not loaded as they should be"
}

for op in read write; do
	for size in 4K 64K 1M; do
		for channels in 1 2 4 8; do
			load "$op" "$size" "$channels"
		done
	done
done
server_stop
rdma_idle "$before"
kernel_clean
CMD

for leg in $(legs 612:rxe); do
	if [ "${leg#*:}" != rxe ]; then
		echo "$leg: the other devices count no packets"
		continue
	fi
	echo "== kernel ${leg%:*}, ${leg#*:}"
	"$RIG" run --kernel "${leg%:*}" --device "${leg#*:}" --devices 2 --timeout 400 \
		"bash $WORK/cmd.sh $WORK" || {
		echo "FAILED on $leg: $?"
		exit 1
	}
done
