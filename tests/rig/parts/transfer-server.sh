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

# threads_ticks: ticks in user mode and in the kernel of each thread of rmemd
threads_ticks()
{
	local task
	for task in "/proc/$SERVER_PID/task/"*; do
		echo "$(cat "$task/comm") $(awk '{ print $14, $15 }' "$task/stat")"
	done
}

# used_from MARK MARK: the CPU time of rmemd and the time between two marks of the client, in ticks
# of 10 ms
used_from()
{
	local ticks started
	rig-await "$1"
	ticks=$(cpu_ticks "$SERVER_PID") started=$(cut -d' ' -f1 /proc/uptime)
	rig-await "$2"
	awk -v t="$(($(cpu_ticks "$SERVER_PID") - ticks))" -v a="$started" \
		-v b="$(cut -d' ' -f1 /proc/uptime)" 'BEGIN { print t, int((b - a) * 100) }'
}

# Beyond what the sessions cost, which a put and get of one page shows, a put and get takes at most
# 1 % of its time.
read -r sessions _ <<<"$(used_from page begin)"
threads_ticks >/tmp/ticks-before
read -r used took <<<"$(used_from begin end)"
awk -v s="$sessions" -v u="$used" -v t="$took" 'BEGIN {
	printf "rmemd used %d ms of CPU in %.1f s, of which the sessions %d ms: %.2f %%\n",
		u * 10, t / 100, s * 10, 100 * (u - s) / t
	exit 100 * (u - s) / t > 1 }' || {
	threads_ticks | diff -y --suppress-common-lines /tmp/ticks-before -
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
