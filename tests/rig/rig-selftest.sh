#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The rig works as its usage says: rig-selftest.sh [612|61]
# cores: 1  seconds: 130
# shellcheck disable=SC2317 # called through check
# shellcheck disable=SC2016 # expands in the guest
set -u

kernel=${1-612}
here=$(dirname "$(readlink -f "$0")")
rig=$here/rig
work=$(mktemp -d "${TMPDIR:-/tmp}/rig-selftest.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 143' HUP INT TERM
export TMPDIR=$work/tmp
mkdir "$TMPDIR" "$work/share"
failed=0

# check NAME COMMAND...: run a check and print its result
check()
{
	local name=$1
	shift
	if "$@"; then
		echo "ok    $name"
	else
		echo "FAIL  $name"
		sed 's/^/      | /' "$work/out" "$work/err"
		failed=1
	fi
}

# rig_run STATUS ARGUMENT...: run the rig; it ends with STATUS, its output is in out and err
rig_run()
{
	local want=$1 status=0
	shift
	"$rig" "$@" >"$work/out" 2>"$work/err" || status=$?
	[ "$status" -eq "$want" ] || {
		echo "exit status $status, not $want" >>"$work/err"
		return 1
	}
}

# has LINE...: the output has each of these lines
has()
{
	local line
	for line; do
		grep -qxF -- "$line" "$work/out" || {
			echo "no line '$line'" >>"$work/err"
			return 1
		}
	done
}

err_has()
{
	grep -q -- "$1" "$work/err"
}

# Functions for the guest: rping_server ADDRESS, then rping_client ADDRESS.
guest_functions='
rping_server()
{
	rping -s -a "$1" -C 20 >/dev/null 2>&1 &
	until rdma resource show cm_id | grep -q "LISTEN.* comm rping"; do sleep 0.1; done
}
rping_client()
{
	rping -c -a "$1" -C 20 >/dev/null 2>&1 && echo "rping $1"
}
'

test_usage()
{
	rig_run 2 && rig_run 2 run && rig_run 2 run --nonsense x && rig_run 2 kernel 5 &&
		rig_run 2 run --cpus many true && rig_run 2 pair one &&
		rig_run 2 pair --c-cpus 1 a b &&
		rig_run 2 run --systemd=1 true && rig_run 0 --help
}

# One VM with most options.
test_one()
{
	rig_run 3 run --kernel "$kernel" --devices 2 --numa 2 --distance 25 \
		--hugepages-2m 50 --hugepages-1g 1 --share "$work/share" "$guest_functions"'
		echo to-stderr >&2
		echo to-stdout >/dev/stdout
		rdma link show | cut -d" " -f1-4
		for address in 10.9.0.1 10.10.0.1; do
			rping_server $address
			rping_client $address
			wait
		done
		cd /sys/devices/system/node
		grep -H . node*/distance node*/cpulist node*/hugepages/*/nr_hugepages
		uname -r
		id -u
		touch /share/from-guest
		exit 3'
}

test_one_numa()
{
	has 'node0/distance:10 25' 'node1/distance:25 10' node0/cpulist:0 node1/cpulist:1 \
		node0/hugepages/hugepages-2048kB/nr_hugepages:50 \
		node1/hugepages/hugepages-2048kB/nr_hugepages:50 \
		node0/hugepages/hugepages-1048576kB/nr_hugepages:1 \
		node1/hugepages/hugepages-1048576kB/nr_hugepages:1
}

test_arguments()
{
	[ "$(<"$work/out")" = "a  b|\$c|d'e|" ]
}

test_timeout()
{
	rig_run 124 run --kernel "$kernel" --timeout 2 'sleep 60' && err_has 'time-out after 2 s'
}

test_death()
{
	rig_run 125 run --kernel "$kernel" --device none 'echo c >/proc/sysrq-trigger; sleep 60' &&
		err_has 'the VM died' && err_has 'Kernel panic'
}

# What a kernel prints at a double fault, and at a soft lockup.
test_kernel_failed()
{
	local end='echo c >/proc/sysrq-trigger; sleep 60' fault lockup
	fault='echo "<2>traps: PANIC: double fault" >/dev/kmsg'
	lockup='[ "$(cat /proc/sys/kernel/softlockup_panic)" = 1 ] || exit 1
		echo "<2>Kernel panic - not syncing: softlockup: hung tasks" >/dev/kmsg'
	rig_run 126 run --kernel "$kernel" --device none "$lockup; $end" &&
		rig_run 126 pair --kernel "$kernel" --device none 'exit 1' "$fault; $end"
}

# A kernel log without a warning, with the fault that rxe is known for, and with another one.
test_kernel_warned()
{
	rig_run 126 run --kernel "$kernel" --device none ". '$here/guest/functions'"'
		warn="<4>WARNING: CPU: 0 PID: 9 at rxe_task.c:267"
		(kernel_clean) || exit 3
		echo "$warn rxe_requester+0x9c/0xb0" >/dev/kmsg
		(kernel_clean)
		[ $? -eq 1 ] || exit 2
		dmesg -C
		echo "$warn rxe_sched_task+0x9c/0xb0" >/dev/kmsg
		kernel_clean'
}

# A boot that fails is tried once more.
test_boot_failed()
{
	local bin=$work/bin
	mkdir -p "$bin"
	cat >"$bin/qemu-system-x86_64" <<-QEMU
		#!/bin/sh
		[ -e "$bin/died" ] || { touch "$bin/died"; exit 0; }
		exec $(command -v qemu-system-x86_64) "\$@"
	QEMU
	chmod +x "$bin/qemu-system-x86_64"
	PATH=$bin:$PATH rig_run 0 run --kernel "$kernel" --device none \
		-- printf '%s|' 'a  b' '$c' "d'e" && err_has 'once more'
}

test_never_boots()
{
	rig_run 125 run --kernel "$kernel" --device none --append rdinit=/none true &&
		err_has 'once more' && err_has 'the VM died' && err_has 'Kernel panic'
}

test_lives()
{
	rig_run 5 run --kernel "$kernel" --device none --lives 2 --share "$work/share" '
		[ ! -e /share/lived ] || exit 5
		: >/share/lived
		echo c >/proc/sysrq-trigger
		sleep 60'
}

test_pair()
{
	rig_run 7 pair --kernel "$kernel" "$guest_functions"'
		rping_server $RIG_ADDR
		rig-mark a-listens
		rig-await b-listens && rping_client $RIG_PEER
		rig-await b-done; rig-mark a-done
		ls /share' "$guest_functions"'
		busybox ping -c 1 -W 5 $RIG_PEER >/dev/null && echo ping
		touch /share/from-b
		rig-await a-listens && rping_client $RIG_PEER
		wait
		rping_server $RIG_ADDR
		rig-mark b-listens
		rig-mark b-done; rig-await a-done
		exit 7' &&
		has 'B: ping' 'B: rping 10.8.0.1' 'A: rping 10.8.0.2' 'A: from-b'
}

test_pair_dies()
{
	rig_run 1 pair --kernel "$kernel" --device none 'rig-await never' \
		'echo c >/proc/sysrq-trigger' &&
		err_has "A: rig-await: the other machine ended before 'never'"
}

test_systemd()
{
	rig_run 4 run --kernel "$kernel" --systemd '
		cat /proc/1/comm
		systemctl is-system-running --wait
		systemctl list-units --failed --no-legend >&2
		systemd-run --quiet --wait --pipe -p DynamicUser=yes ibv_devices | grep -o rxe0
		exit 4' && has systemd running rxe0
}

test_siw()
{
	rig_run 0 run --kernel "$kernel" --device siw "$guest_functions"'
		rdma link show | cut -d" " -f1-4
		rping_server 10.9.0.1
		rping_client 10.9.0.1' && has 'link siw0/1 state ACTIVE' 'rping 10.9.0.1'
}

# test_killed itself|caller|reader|group: nothing is left when the rig, its caller or the reader of
# its output is killed, or when the process group of the rig gets SIGTERM
# shellcheck disable=SC2216 # a reader that reads nothing
test_killed()
{
	local pid victim n signal=KILL command=("$rig" run --kernel "$kernel" --device none
		--share "$work/share" 'touch /share/up; sleep 100')
	rm -f "$work/share/up"
	case $1 in
	itself) "${command[@]}" >"$work/out" 2>"$work/err" & ;;
	# `true` prevents bash from replacing itself by the last command
	caller) bash -c '"$@"; true' caller "${command[@]}" >"$work/out" 2>"$work/err" & ;;
	reader) "${command[@]}" 2>"$work/err" | sleep 1000 & ;;
	group) setsid "${command[@]}" >"$work/out" 2>"$work/err" & ;;
	esac
	pid=$! victim=$!
	[ "$1" != group ] || signal=TERM victim=-$pid
	for ((n = 0; n < 2000; n++)); do
		[ ! -e "$work/share/up" ] || break
		sleep 0.1
	done
	[ -e "$work/share/up" ] || return 1
	kill -s "$signal" -- "$victim"
	[ "$signal" = TERM ] || wait "$pid" 2>/dev/null
	for ((n = 0; n < 600; n++)); do
		nothing_left && return
		sleep 0.1
	done
	return 1
}

nothing_left()
{
	# grep also fails when a process ends meanwhile, so its status is ignored
	grep -lsF "$TMPDIR" /proc/[0-9]*/cmdline >"$work/out"
	[ ! -s "$work/out" ] && [ -z "$(ls -A "$TMPDIR")" ]
}

"$rig" kernel "$kernel" >"$work/out" 2>"$work/err" || {
	cat "$work/err"
	echo "skipped: no virtual machine here"
	exit 77
}
release=$(<"$work/out")
echo "Linux $release"

check 'wrong usage is refused' test_usage
check 'one VM: exit status' test_one
check 'one VM: the kernel asked for, as root' has "$release" 0
check 'one VM: stdout' has to-stdout
check 'one VM: stderr' err_has '^to-stderr$'
check 'one VM: /share' [ -e "$work/share/from-guest" ]
check 'one VM: two rxe devices' has 'link rxe0/1 state ACTIVE' 'link rxe1/1 state ACTIVE'
check 'one VM: rdma_cm and verbs on both' has 'rping 10.9.0.1' 'rping 10.10.0.1'
check 'one VM: NUMA nodes and huge pages' test_one_numa
check 'time-out' test_timeout
check 'a dead VM is noticed' test_death
check 'failures of the kernel are told apart, of either machine' test_kernel_failed
check 'warnings of the kernel are told apart' test_kernel_warned
check 'a VM that dies during boot is started again' test_boot_failed
check 'arguments arrive unchanged' test_arguments
check 'a VM that dies twice is not started again' test_never_boots
check 'a VM that dies lives again, as often as asked' test_lives
check 'pair: rdma_cm and verbs both ways' test_pair
check 'pair: rig-await ends when the other kernel dies' test_pair_dies
check 'systemd is PID 1, no unit has failed' test_systemd
if "$rig" siw "$kernel" >"$work/out" 2>"$work/err"; then
	check 'siw: rdma_cm and verbs' test_siw
else
	echo "skip  siw: $(tail -n 1 "$work/err")"
fi
for who in itself caller reader group; do
	check "killed, it leaves nothing: $who" test_killed "$who"
done
check 'nothing is left at the end' nothing_left
exit $failed
