# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Two devices: by their packet counters, a queue of 2, 4 or 8 channels loads both equally within
# 5 %, and one channel uses one device.
#   RMEM_BENCH_MS  duration of each measurement, default 500
config_write /tmp/rmemd.conf \
	"server: listen=10.9.0.1,10.10.0.1 insecure=yes" \
	"session: heartbeat=5s fence=60s" \
	"pool main: size=128M"
server_start /tmp/rmemd.conf
admin devices

# load OP SIZE CHANNELS: run bench, and compare the packets of the devices
load()
{
	local a b megabytes depth=64
	# bench fills the queue once, even if that takes longer than the duration
	[ "$2" != 1M ] || depth=16
	a=$(packets rxe0) b=$(packets rxe1)
	megabytes=$(timeout 100 rmem --server "rmem://10.9.0.1?fabric=rdma&channels=$3" \
		bench --op "$1" --size "$2" --depth "$depth" --batch 16 \
		--duration "${RMEM_BENCH_MS:-500}ms" --region 16M --json |
		jq -r '.bytes_per_second / 1e6') || fail "bench"
	a=$(($(packets rxe0) - a)) b=$(($(packets rxe1) - b))
	awk -v op="$1" -v size="$2" -v n="$3" -v a="$a" -v b="$b" -v mbs="$megabytes" 'BEGIN {
		share = 2 * a / (a + b)
		printf "%-5s %4s, %d channels: rxe0 %6d rxe1 %6d packets, ", op, size, n, a, b
		printf "rxe0 has %.3f of its half, %.1f MB/s\n", share, mbs
		if (n == 1)
			exit !(a + b > 100 && (a < 50 || b < 50))
		exit !(a + b > 100 && share > 0.95 && share < 1.05) }' ||
		fail "the devices do not carry equal parts"
}

for op in read write; do
	for size in 4K 64K 1M; do
		for channels in 1 2 4 8; do
			load "$op" "$size" "$channels"
		done
	done
done
server_stop
