#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two machines: rmemd under systemd in one, `rmem put` and `rmem get` in the other, 256 MiB
# over RDMA.  The bytes are equal, the server's CPU takes no part (its time, and a transfer
# while all its threads are stopped), and nothing is left behind.  Heartbeats are few and
# their limits wide: what is measured is the path of the data.
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage
mkdir "$WORK/share"

# A real file: what this machine's libraries are, as an archive.
tar -C / -cf - usr/lib 2>/dev/null | head -c $((256 << 20)) >"$WORK/share/file"
[ "$(stat -c %s "$WORK/share/file")" -eq $((256 << 20)) ] || {
	echo "no 256 MiB in /usr/lib"
	exit 1
}
sha256sum <"$WORK/share/file" | cut -d' ' -f1 >"$WORK/share/sum"

cat >"$WORK/server.sh" <<'SERVER'
. "$1/guest.sh"
guest_install
cat >/etc/rmem/rmemd.conf <<-CONF
	[server]
	listen = 10.8.0.1
	insecure = yes
	[session]
	heartbeat = 5s
	fence = 60s
	[rdma]
	enabled = yes
	[pool main]
	size = 400M
CONF
mkdir -p /etc/systemd/system/rmemd.socket.d
printf '[Socket]\nListenStream=10.8.0.1:7460\n' >/etc/systemd/system/rmemd.socket.d/address.conf
systemctl daemon-reload
before=$(rdma_objects)
service_start
systemctl status --no-pager -l rmemd.service | grep -E 'Status:' || fail "no STATUS= line"
rmemctl devices
rig-mark up

# While a file goes to and fro: 1 % of the wall time at most.
rig-await begin
ticks=$(cpu_ticks "$SERVER_PID") started=$(cut -d' ' -f1 /proc/uptime)
rig-await end
awk -v t="$(($(cpu_ticks "$SERVER_PID") - ticks))" -v a="$started" \
	-v b="$(cut -d' ' -f1 /proc/uptime)" 'BEGIN {
	printf "rmemd used %d ms of CPU in %.1f s: %.2f %%\n", t * 10, b - a, t / (b - a)
	exit t / (b - a) > 1 }' || {
	for task in "/proc/$SERVER_PID/task/"*; do
		echo "$(cat "$task/comm"): $(awk '{ print $14, $15 }' "$task/stat") ticks"
	done
	rmemctl status
	fail "the server's CPU is on the path"
}

# While every thread of it is stopped; systemd must not take that for a hang.
rig-await attached
systemctl service-watchdogs no
kill -STOP "$SERVER_PID"
stopped=$(date +%s%N)
for task in "/proc/$SERVER_PID/task/"*; do
	until grep -q '^State:.T' "$task/status"; do sleep 0.01; done
done
rig-mark stopped
rig-await transferred
for task in "/proc/$SERVER_PID/task/"*; do
	grep -q '^State:.T' "$task/status" || fail "a thread of rmemd ran"
done
while [ $(($(date +%s%N) - stopped)) -lt 1000000000 ]; do sleep 0.05; done
echo "rmemd was stopped for $((($(date +%s%N) - stopped) / 1000000)) ms"
kill -CONT "$SERVER_PID"
systemctl service-watchdogs yes
rig-mark running
rig-await done
for ((i = 0; i < 100; i++)); do
	rmemctl --json status >/tmp/status
	jq -e '.memory.lent_bytes == 0 and .sessions.active + .sessions.fenced == 0' /tmp/status >/dev/null && break
	sleep 0.1
done
jq -e '.memory.lent_bytes == 0 and .sessions.active + .sessions.fenced == 0' /tmp/status >/dev/null ||
	{ cat /tmp/status; fail "memory is still lent"; }
systemctl stop rmemd.socket rmemd.service || fail "stop"
[ "$(systemctl show -p Result --value rmemd.service)" = success ] || fail "not a clean stop"
rdma_idle "$before"
kernel_clean
journalctl -u rmemd --no-pager -o short-monotonic | tail -n 20
SERVER

cat >"$WORK/client.sh" <<'CLIENT'
. "$1/guest.sh"
guest_install
export RMEM_SERVER="rmem://10.8.0.1?fabric=rdma"
rig-await up
before=$(rdma_objects)
rig-mark begin
rmem -v put lib.tar /share/file || fail "put"
sum=$(rmem get lib.tar - | sha256sum | cut -d' ' -f1)
rig-mark end
[ "$sum" = "$(cat /share/sum)" ] || fail "SHA-256 differs: $sum"
echo "256 MiB over RDMA and back: SHA-256 $sum"
rmem ls
rmem rm lib.tar || fail "rm"

coproc CLIENT { "$BUILD/tests/rig/attached" "$RMEM_SERVER" $((16 << 20)); }
read -r line <&"${CLIENT[0]}" && [ "$line" = ready ] || fail "attached: $line"
rig-mark attached
rig-await stopped
echo >&"${CLIENT[1]}"
read -r line <&"${CLIENT[0]}" && [ "$line" = transferred ] || fail "transfer: $line"
rig-mark transferred
rig-await running
echo >&"${CLIENT[1]}"
wait "$CLIENT_PID" || fail "attached ended with $?"
echo "16 MiB written, read back and compared while rmemd was stopped"
rdma_idle "$before"
kernel_clean
rig-mark done
CLIENT

for leg in $(legs 612:rxe 61:rxe 612:siw); do
	echo "== kernel ${leg%:*}, ${leg#*:}"
	"$RIG" pair --kernel "${leg%:*}" --device "${leg#*:}" --share "$WORK/share" \
		--a-systemd --memory 1536 --timeout 400 \
		"bash $WORK/server.sh $WORK" "bash $WORK/client.sh $WORK" || {
		echo "FAILED on $leg: $?"
		exit 1
	}
done
