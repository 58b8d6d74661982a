#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# 1,000 sessions in one machine of the rig: rmemd's memory, rate of set-up; takes --json,
# --sessions N, --connect cm|direct, --icount
#
# Set-up is from nothing to the first word read: rmem_open(), a registered buffer, rmem_attach(),
# rmem_read(); and by bare rdma_cm calls a connection with a protection domain, a registration
# and a queue pair of its own at both ends, whose server tells where its memory is, and a read.
# The two take turns in blocks of 20; the ratio is that of the medians of the blocks.  A third one
# takes turns with them: a TCP connection with two round trips, to a server that sends back what
# comes, which is the least that a control connection takes.  With rdma_cm a session has to have
# both: where instructions are counted no library has a higher ratio than the one beside it.  With
# --connect direct the library's channels are set up without rdma_cm.  With --icount instructions
# are counted, of kernel and programs together, on one CPU: the figures are the same on a busy
# host, but are no times.
# What rmemd allocates is its anonymous memory; the kernel's is that of both ends, and of the
# other two's.  RMEM_RIG_LEGS="612:rxe 61:rxe 612:siw" says on which kernels and devices.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench sessions}" "${top_builddir:?}"
JSON=
SESSIONS=1000
CONNECT=cm
COUNT=
while [ $# -gt 0 ]; do
	case $1 in
	--json) JSON=yes ;;
	--sessions)
		SESSIONS=${2:?}
		shift
		;;
	--connect)
		CONNECT=${2:?}
		shift
		;;
	--icount) COUNT=--icount ;;
	*)
		echo "usage: sessions.sh [--json] [--sessions N] [--connect cm|direct] [--icount]" >&2
		exit 2
		;;
	esac
	shift
done

# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
make -s -C "$top_builddir" tests/bench/sessions >&2
stage

cat >"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
n=$2 connect=$3
exec 3>&1 >&2
ulimit -n 100000 || fail "no descriptors"
guest_install
before=$(rdma_objects)
cat >/tmp/rmemd.conf <<-CONF
	[server]
	listen = $RIG_ADDR
	insecure = yes
	[session]
	heartbeat = 20s
	fence = 120s
	[rdma]
	connect = $connect
	[limits]
	sessions = $((n + 8))
	[admin]
	socket = /tmp/admin.sock
	[pool main]
	size = 64M
CONF
server_start /tmp/rmemd.conf /tmp/admin.sock

# kilobytes: anonymous memory of rmemd, all that the kernel has allocated
memory()
{
	awk '/^Anonymous:/ { print $2 }' "/proc/$SERVER_PID/smaps_rollup"
	awk '/^(Slab|KernelStack|PageTables|Percpu):/ { sum += $2 } END { print sum }' /proc/meminfo
}

coproc PROGRAM { "$BUILD/tests/bench/sessions" "rmem://$RIG_ADDR?fabric=rdma" "$RIG_ADDR" 7999 "$n"; }
# step WORD: until the program is there
step()
{
	read -r line <&"${PROGRAM[0]}" && [ "$line" = "$1" ] || {
		tail -n 20 /tmp/rmemd.log
		fail "$1: $line"
	}
}
step begun
read -rd '' daemon kernel < <(memory)
echo >&"${PROGRAM[1]}"
step opened
echo >&"${PROGRAM[1]}"
step read
read -rd '' daemon_now kernel_now < <(memory)
objects=$(rdma_objects)
rmemctl --socket /tmp/admin.sock status
echo >&"${PROGRAM[1]}"
read -r times <&"${PROGRAM[0]}" || fail "no times"
wait "$PROGRAM_PID" || fail "the program ended with $?"
server_stop
rdma_idle "$before"
kernel_clean
jq -cn --argjson sessions "$n" --argjson times "$times" --arg objects "$objects" \
	--argjson daemon "$(((daemon_now - daemon) * 1024 / n))" \
	--argjson kernel "$(((kernel_now - kernel) * 1024 / n))" \
	'def rate(phase): ($times.bare_us[phase] / $times.librmem_us[phase] * 1000 | round / 1000);
	 ($times.bare_us.setup / ($times.bare_us.setup + $times.control_us.setup)) as $both |
	 {sessions: $sessions, setup: rate("setup"), open: rate("open"), close: rate("close"),
	  both: ($both * 1000 | round / 1000),
	  daemon_bytes_per_session: $daemon, kernel_bytes_per_session: $kernel,
	  objects: $objects} + $times' >&3
CMD

for leg in $(legs 612:rxe); do
	"$RIG" run $COUNT --kernel "${leg%:*}" --device "${leg#*:}" --memory 6144 --timeout 1200 \
		"bash $WORK/cmd.sh $WORK $SESSIONS $CONNECT" >"$WORK/row"
	jq -c --arg leg "$leg" --arg connect "$CONNECT" \
		--arg clock "${COUNT:+instructions}" \
		'{leg: $leg, connect: $connect,
		  clock: (if $clock == "" then "time" else $clock end)} + .' \
		"$WORK/row" >>"$WORK/rows"
	[ -z "$JSON" ] || continue
	jq -r '"kernel and device \(.leg), connect = \(.connect), \(.sessions) sessions, by \(.clock):
  microseconds each      librmem   bare rdma_cm
  set-up                 \(.librmem_us.setup)    \(.bare_us.setup)    ratio \(.setup)
    open, connect        \(.librmem_us.open)    \(.bare_us.open)
    buffer, attach       \(.librmem_us.attach)    (part of the above)
    first read           \(.librmem_us.read)    \(.bare_us.read)
  close                  \(.librmem_us.close)    \(.bare_us.close)    ratio \(.close)
  control connection     \(.control_us.setup)    (alone; bare rdma_cm and this: ratio \(.both))
  rmemd, per session     \(.daemon_bytes_per_session) bytes of anonymous memory
  kernel, per session    \(.kernel_bytes_per_session) bytes, both ends, a bare and a control connection
  objects of the device  \(.objects)"' < <(tail -n 1 "$WORK/rows")
done
if [ -n "$JSON" ]; then
	jq -cs '{rows: ., worst: {setup: (map(.setup) | min),
		daemon_bytes_per_session: (map(.daemon_bytes_per_session) | max)}}' "$WORK/rows"
else
	jq -rs '"worst: set-up \(map(.setup) | min) memory \(map(.daemon_bytes_per_session) | max)"' \
		"$WORK/rows"
fi
