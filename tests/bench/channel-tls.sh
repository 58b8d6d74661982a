#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# TCP channels on loopback without TLS and under it; takes --seconds N
#
# rmem bench over two daemons in turn: reads and writes of 4 KiB and 1 MiB.  The last column is the
# rate under TLS as a share of that without.  `kernel` says who encrypts: the kernel if its module
# tls is loaded, else OpenSSL.
set -euo pipefail

: "${top_builddir:?is set by ./dev bench channel-tls}"
unset SECONDS # is an ordinary variable afterwards
SECONDS=2
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "channel-tls.sh [--seconds N]" "$@"
# shellcheck source=tests/bench/lib/daemon.sh
. "$top_srcdir/tests/bench/lib/daemon.sh"
RMEMCTL=$top_builddir/src/rmemctl/rmemctl
WORK=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$WORK"' EXIT
"$RMEMCTL" keygen default "$WORK" >/dev/null
export RMEM_PSK=$WORK/default.psk

# start NAME PORT TLS
start()
{
	mkdir "$WORK/$1"
	daemon_start "$WORK/$1" 127.0.0.1 "$2" tcp "[server]
auth = psk
psk = $WORK/rmemd.psk
[tcp]
tls = $3
[pool main]
size = 128M" "$top_builddir/src/rmemd/rmemd"
	pids+=("$DAEMON_PID")
}

# rate PORT OP SIZE: bytes a second
rate()
{
	"$top_builddir/src/rmem/rmem" -s "rmem://127.0.0.1:$1?fabric=tcp" bench --op "$2" \
		--size "$3" \
		--duration "${SECONDS}s" --json | jq .bytes_per_second
}

start plain 17470 no
start tls 17480 yes
kernel=no
! grep -qs '^tls ' /proc/modules || kernel=yes
echo "kernel: $kernel"
printf '%-6s %5s %12s %12s %12s %12s %6s\n' op size "plain MB/s" "TLS MB/s" "plain op/s" \
	"TLS op/s" share
for size in 4096 1048576; do
	for op in write read; do
		plain=$(rate 17470 "$op" "$size")
		tls=$(rate 17480 "$op" "$size")
		LC_ALL=C awk -v op="$op" -v size="$size" -v a="$plain" -v b="$tls" 'BEGIN {
			printf "%-6s %5s %12.0f %12.0f %12.0f %12.0f %6.2f\n", op,
				(size > 4096 ? "1M" : "4K"), a / 1e6, b / 1e6,
				a / size, b / size, b / a }'
	done
done
