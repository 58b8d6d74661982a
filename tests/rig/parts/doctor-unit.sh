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
printf '[Service]\nLimitMEMLOCK=8M\nLimitNOFILE=4096\n' >/etc/systemd/system/rmemd.service.d/limits.conf
systemctl daemon-reload
host "the unit limits memory and descriptors" rmemctl doctor -q
says error memlock 'only 8 MiB.* need 64 MiB' 'rmemd.service: RLIMIT_MEMLOCK 8388608' 'systemctl edit rmemd .*LimitMEMLOCK=infinity'
says warning descriptors 'only 4096' 'rmemd.service: RLIMIT_NOFILE 4096' 'LimitNOFILE=[0-9]+'

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
