# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The server of two machines, rmemd under systemd; the client puts and gets a file over RDMA.  The
# server's CPU takes no part: rmemd uses hardly any CPU time, and a transfer succeeds while all its
# threads are stopped.  Heartbeats are rare, so that the measurement shows the data path.
cat >/etc/rmem/rmemd.conf <<-CONF
	[server]
	listen = 10.8.0.1
	$(keys_lines)
	[session]
	heartbeat = 5s
	fence = 60s
	[rdma]
	enabled = yes
	[pool main]
	size = $((RMEM_MIB * 3 / 2 + 16))M
CONF
mkdir -p /etc/systemd/system/rmemd.socket.d
printf '[Socket]\nListenStream=10.8.0.1:7460\n' >/etc/systemd/system/rmemd.socket.d/address.conf
systemctl daemon-reload
service_start
systemctl status --no-pager -l rmemd.service | grep -E 'Status:' || fail "no STATUS= line"
rmemctl devices
rig-mark up

# During put and get: at most 1 % of the wall time, and half a second for the handshakes of TLS.
handshake_ticks=0
[ ! -d /share/keys ] || handshake_ticks=50
rig-await begin
ticks=$(cpu_ticks "$SERVER_PID") started=$(cut -d' ' -f1 /proc/uptime)
rig-await end
awk -v t="$(($(cpu_ticks "$SERVER_PID") - ticks))" -v a="$started" \
	-v b="$(cut -d' ' -f1 /proc/uptime)" -v h="$handshake_ticks" 'BEGIN {
	printf "rmemd used %d ms of CPU in %.1f s: %.2f %%\n", t * 10, b - a, t / (b - a)
	exit (t - h) / (b - a) > 1 }' || {
	for task in "/proc/$SERVER_PID/task/"*; do
		echo "$(cat "$task/comm"): $(awk '{ print $14, $15 }' "$task/stat") ticks"
	done
	rmemctl status
	fail "the server's CPU takes part in the transfer"
}

# All threads of rmemd are stopped, without systemd's watchdog.
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
rig-await finished
for ((i = 0; ; i++)); do
	rmemctl --json status >/tmp/status
	! jq -e '.memory.lent_bytes == 0 and .sessions.active + .sessions.fenced == 0' \
		/tmp/status >/dev/null || break
	[ "$i" -lt 100 ] || { cat /tmp/status; fail "memory is still lent"; }
	sleep 0.1
done
systemctl stop rmemd.socket rmemd.service || fail "stop"
[ "$(systemctl show -p Result --value rmemd.service)" = success ] || fail "not a clean stop"
journalctl -u rmemd --no-pager -o short-monotonic | tail -n 20
rm -r /etc/systemd/system/rmemd.socket.d
