#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# set-up rate and memory of 1,000 sessions
# takes --json, --sessions N, --connect cm|direct, --icount
#
# In a machine of the rig, in alternating blocks of 20 (see sessions.h):
# - a session, set up until it has read a word: rmem_open(), a registered buffer, rmem_attach(),
#   rmem_read();
# - a bare rdma_cm connection with a protection domain, a memory region and a queue pair of its own
#   at both ends, and a read;
# - a TCP connection with two round trips, the least that the control protocol needs.
# The ratio is that of the medians of the blocks, bare to session.  With rdma_cm a session needs
# an RDMA and a TCP connection: the ratio that is printed beside "control connection" is the upper
# bound for any library, if instructions are counted.
#
# --connect direct sets up channels without rdma_cm.  --icount counts the instructions of kernel
# and programs on one CPU: the figures do not depend on other load of the host, but are no times.
# rmemd's memory is its anonymous memory; the kernel's is that of both ends of all three
# connections.  RMEM_RIG_LEGS="612:rxe 61:rxe 612:siw" selects kernels and devices.
set -euo pipefail

: "${top_srcdir:?is set by ./dev bench sessions}" "${top_builddir:?}"
SESSIONS=1000
CONNECT=cm
ICOUNT=
# shellcheck source=tests/bench/lib/options.sh
. "${top_srcdir:?}/tests/bench/lib/options.sh"
options "sessions.sh [--json] [--sessions N] [--connect cm|direct] [--icount]" "$@"

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
config_write /tmp/rmemd.conf \
	"server: listen=$RIG_ADDR insecure=yes" \
	"session: heartbeat=20s fence=120s" \
	"rdma: connect=$connect" \
	"limits: sessions=$((n + 8))" \
	"pool main: size=64M"
server_start /tmp/rmemd.conf

# two numbers in KiB: anonymous memory of rmemd, memory of the kernel
memory()
{
	awk '/^Anonymous:/ { print $2 }' "/proc/$SERVER_PID/smaps_rollup"
	awk '/^(Slab|KernelStack|PageTables|Percpu):/ { sum += $2 } END { print sum }' /proc/meminfo
}

coproc PROGRAM {
	"$BUILD/tests/bench/sessions" "rmem://$RIG_ADDR?fabric=rdma" "$RIG_ADDR" 7999 "$n"
}
# step WORD: wait until the program prints it
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
admin status
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
	"$RIG" run --parallel ${ICOUNT:+--icount} --kernel "${leg%:*}" --device "${leg#*:}" \
		--memory 6144 --timeout 1200 \
		"bash $WORK/cmd.sh $WORK $SESSIONS $CONNECT" >"$WORK/row"
	jq -c --arg leg "$leg" --arg connect "$CONNECT" \
		--arg clock "${ICOUNT:+instructions}" \
		'{leg: $leg, connect: $connect,
		  clock: (if $clock == "" then "time" else $clock end)} + .' \
		"$WORK/row" >>"$WORK/rows"
	[ -z "$JSON" ] || continue
	jq -r '"kernel and device \(.leg), connect = \(.connect), " +
"\(.sessions) sessions, by \(.clock):
  microseconds each      librmem   bare rdma_cm
  set-up                 \(.librmem_us.setup)    \(.bare_us.setup)    ratio \(.setup)
    open, connect        \(.librmem_us.open)    \(.bare_us.open)
    buffer, attach       \(.librmem_us.attach)    (part of the above)
    first read           \(.librmem_us.read)    \(.bare_us.read)
  close                  \(.librmem_us.close)    \(.bare_us.close)    ratio \(.close)
  control connection     \(.control_us.setup)    (alone; bare rdma_cm and this: ratio \(.both))
  rmemd, per session     \(.daemon_bytes_per_session) bytes of anonymous memory
  kernel, per session    \(.kernel_bytes_per_session) bytes, both ends, a bare and a control " +
"connection
  objects of the device  \(.objects)"' < <(tail -n 1 "$WORK/rows")
done
if [ -n "$JSON" ]; then
	jq -cs '{rows: ., worst: {setup: (map(.setup) | min),
		daemon_bytes_per_session: (map(.daemon_bytes_per_session) | max)}}' "$WORK/rows"
else
	jq -rs '"worst: set-up \(map(.setup) | min) " +
		"memory \(map(.daemon_bytes_per_session) | max)"' "$WORK/rows"
fi
