# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The limits are those of rmemd.service, whether it runs or not.
# shellcheck source=tests/rig/guest/doctor-functions
. "${top_srcdir:?}/tests/rig/guest/doctor-functions"
cat >/etc/rmem/rmemd.conf <<-END
	[server]
	listen = $RIG_ADDR
	$(keys_lines)
	[pool main]
	size = 64M
	page_size = base
END
rmemctl --json doctor >/tmp/doctor.json || true
says ok memlock 'not limited \(rmemd.service\)' '' ''
says ok descriptors '^262144 descriptors' '' ''

mkdir -p /etc/systemd/system/rmemd.service.d
printf '[Service]\nLimitMEMLOCK=8M\nLimitNOFILE=4096\n' \
	>/etc/systemd/system/rmemd.service.d/limits.conf
systemctl daemon-reload
host "the unit limits memory and descriptors" rmemctl doctor -q
says error memlock 'only 8 MiB.* need 64 MiB' 'rmemd.service: RLIMIT_MEMLOCK 8388608' \
	'systemctl edit rmemd .*LimitMEMLOCK=infinity'
says warning descriptors 'only 4096' 'rmemd.service: RLIMIT_NOFILE 4096' 'LimitNOFILE=[0-9]+'

# a limit that pools do not fit into is named, and nothing is killed
printf '[Service]\nMemoryMax=60M\n' >/etc/systemd/system/rmemd.service.d/limits.conf
systemctl daemon-reload
host "the unit limits memory" rmemctl doctor -q
says error huge-pages "'main' needs 64 MiB, the limit of its control group leaves 35.5 MiB" \
	'rmemd.service: 60 MiB; 24.5 MiB are used or for rmemd itself' \
	'systemctl edit rmemd .*MemoryMax=[0-9]+M; then restart it$'
timeout 60 systemctl start rmemd.service && fail "it starts"
systemctl stop rmemd.socket rmemd.service
refused="pool 'main': 64 MiB wanted, [0-9.]+ MiB available"
refused+=": /sys/fs/cgroup/system.slice/rmemd.service/memory.max is 60 MiB, .*"
refused+=": raise it \(MemoryMax= in a unit of systemd\), or make the pool smaller"
journalctl -u rmemd --no-pager -n 100 >/tmp/journal
grep -E "$refused" /tmp/journal | tail -n 1
grep -qE "$refused" /tmp/journal || fail "$(tail -n 20 /tmp/journal)"
! dmesg | grep -i 'oom-kill' || fail "the kernel has killed"
# what the doctor says is enough
printf '[Service]\n%s\n' "$(grep -o 'MemoryMax=[0-9]*M' /tmp/doctor.json)" \
	>/etc/systemd/system/rmemd.service.d/limits.conf
systemctl daemon-reload
service_start
systemctl stop rmemd.socket rmemd.service

rm -r /etc/systemd/system/rmemd.service.d
systemctl daemon-reload
service_start
rmemctl doctor || true
rmemctl --json doctor >/tmp/doctor.json || true
says ok daemon "runs, pid $SERVER_PID" '' ''
says ok memlock "not limited \(/proc/$SERVER_PID/limits\)" '' ''
systemctl stop rmemd.socket rmemd.service
# rmemd.socket has the port of the daemon, which is no other program
systemctl start rmemd.socket
rmemctl --json doctor -s /nowhere >/tmp/doctor.json || true
says ok ports 'no other program' '' ''
systemctl stop rmemd.socket rmemd.service
