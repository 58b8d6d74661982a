# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# One virtual machine: its options, its qemu command line, its life.

vm_defaults()
{
	VM_KERNEL=612 VM_MEMORY='' VM_CPUS=2 VM_TIMEOUT=300 VM_DEVICE=rxe VM_DEVICES=1
	VM_NUMA=0 VM_NODE_MEMORY='' VM_DISTANCE=21 VM_HUGE_2M=0 VM_HUGE_1G=0
	VM_SYSTEMD='' VM_SHARE='' VM_ICOUNT='' VM_PARALLEL='' VM_APPEND=() VM_QEMU=()
	VM_SIDE='' VM_CABLE='' VM_LIVES=1
}

# vm_option_kind NAME: "flag", or "value" for an option that takes one; refuses unknown options
vm_option_kind()
{
	case $1 in
	systemd | icount | parallel) echo flag ;;
	kernel | memory | cpus | timeout | device | devices | numa | node-memory | distance | \
	hugepages-2m | hugepages-1g | share | append | qemu | cable | lives)
		echo value
		;;
	*) usage_error "unknown option --$1" ;;
	esac
}

# vm_option NAME [VALUE]
vm_option()
{
	case $1 in
	cpus | timeout | devices | memory | numa | distance | lives | hugepages-*)
		need_number "--$1" "$2"
		;;
	esac
	case $1 in
	kernel) VM_KERNEL=$2 ;;
	memory) VM_MEMORY=$2 ;;
	cpus) VM_CPUS=$2 ;;
	timeout) VM_TIMEOUT=$2 ;;
	device)
		[[ $2 =~ ^(rxe|siw|none)$ ]] || usage_error "--device is rxe, siw or none"
		VM_DEVICE=$2
		;;
	devices) VM_DEVICES=$2 ;;
	numa) VM_NUMA=$2 ;;
	node-memory)
		[[ $2 =~ ^[1-9][0-9]*(,(0|[1-9][0-9]*))*$ ]] ||
			usage_error "--node-memory: '$2' is not MB[,MB...]; node 0 needs some"
		VM_NODE_MEMORY=$2
		;;
	distance) VM_DISTANCE=$2 ;;
	hugepages-2m) VM_HUGE_2M=$2 ;;
	hugepages-1g) VM_HUGE_1G=$2 ;;
	systemd) VM_SYSTEMD=1 ;;
	share) VM_SHARE=$2 ;;
	lives) VM_LIVES=$2 ;;
	icount) VM_ICOUNT=1 ;;
	parallel) VM_PARALLEL=1 ;;
	append) read -ra VM_APPEND <<<"$2" ;;
	qemu) read -ra VM_QEMU <<<"$2" ;;
	# Internal: SIDE:DIR, from rig pair.
	cable) VM_SIDE=${2%%:*} VM_CABLE=${2#*:} ;;
	esac
}

# vm_parse PREFIX FUNCTION WORD...: call FUNCTION NAME [VALUE] for each option at the head of the
# words; VM_WORDS are the words after them.  The name of an option may have PREFIX, a pattern.
vm_parse()
{
	local prefix=$1 call=$2 name kind with
	shift 2
	while [[ ${1-} == --* ]]; do
		name=${1#--}
		shift
		[ -n "$name" ] || break
		with=
		if [[ $name == *=* ]]; then
			set -- "${name#*=}" "$@"
			name=${name%%=*}
			with=1
		fi
		# shellcheck disable=SC2295 # a pattern
		kind=$(vm_option_kind "${name#$prefix}")
		[ "$kind$with" != flag1 ] || usage_error "--$name takes no value"
		if [ "$kind" = value ]; then
			[ $# -gt 0 ] || usage_error "--$name needs a value"
			"$call" "$name" "$1"
			shift
		else
			"$call" "$name"
		fi
	done
	VM_WORDS=("$@")
}

# The value of an option of qemu: commas are doubled.
vm_quote()
{
	printf %s "${1//,/,,}"
}

vm_9p()
{
	VM_ARGS+=(-virtfs \
		"local,path=$(vm_quote "$1"),mount_tag=$2,security_model=none,multidevs=remap${3-}")
}

# The default memory of a node in MB: a base, the huge pages, and 1 GiB to align pages of 1 GiB.
vm_node_default()
{
	local mb=$((VM_NUMA > 1 ? 1024 : 2048))
	[ -z "$VM_SIDE" ] || mb=1024
	mb=$((mb + VM_HUGE_2M * 2 + VM_HUGE_1G * 1024))
	[ "$VM_HUGE_1G" -eq 0 ] || mb=$((mb + 1024))
	echo $mb
}

vm_args_memory()
{
	local nodes=$((VM_NUMA > 0 ? VM_NUMA : 1)) sizes=() n m total=0 cpus
	if [ -n "$VM_NODE_MEMORY" ]; then
		IFS=, read -ra sizes <<<"$VM_NODE_MEMORY"
		[ ${#sizes[@]} -eq $nodes ] ||
			usage_error "--node-memory has ${#sizes[@]} sizes for $nodes nodes"
	else
		for ((n = 0; n < nodes; n++)); do
			sizes+=($((VM_MEMORY ? VM_MEMORY / nodes : $(vm_node_default))))
		done
	fi
	for m in "${sizes[@]}"; do
		total=$((total + m))
	done
	VM_ARGS+=(-m "$total")

	if [ "$VM_NUMA" -eq 0 ]; then
		VM_ARGS+=(-smp "$VM_CPUS")
		return
	fi
	if [ $((VM_CPUS % nodes)) -eq 0 ]; then
		VM_ARGS+=(-smp "$VM_CPUS,sockets=$nodes")
	else
		VM_ARGS+=(-smp "$VM_CPUS")
	fi
	for ((n = 0; n < nodes; n++)); do
		cpus=
		for ((m = 0; m < VM_CPUS; m++)); do
			[ $((m % nodes)) -ne "$n" ] || cpus+=,cpus=$m
		done
		if [ "${sizes[n]}" -gt 0 ]; then
			VM_ARGS+=(-object "memory-backend-ram,id=m$n,size=${sizes[n]}M"
				-numa "node,nodeid=$n$cpus,memdev=m$n")
		else
			VM_ARGS+=(-numa "node,nodeid=$n$cpus")
		fi
		for ((m = 0; m < n; m++)); do
			VM_ARGS+=(-numa "dist,src=$m,dst=$n,val=$VM_DISTANCE")
		done
	done
}

# vm_append_hugepages SIZE COUNT: add COUNT pages of this size for each node to the command line
vm_append_hugepages()
{
	local size=$1 count=$2 n list=
	[ "$count" -gt 0 ] || return 0
	for ((n = 0; n < (VM_NUMA > 0 ? VM_NUMA : 1); n++)); do
		list+=,$n:$count
	done
	VM_CMDLINE+=("hugepagesz=$size" "hugepages=${list:1}")
}

# Units that cost time in a virtual machine, or that access hardware that it does not have.
readonly VM_MASKED="systemd-udev-trigger systemd-udev-settle systemd-timesyncd
	systemd-update-utmp systemd-random-seed apparmor e2scrub_reap keyboard-setup
	console-setup ifupdown-pre networking systemd-binfmt systemd-pstore
	systemd-machine-id-commit rdma-load-modules@rdma rdma-load-modules@roce
	rdma-load-modules@iwarp rdma-load-modules@infiniband rdma-ndd systemd-networkd"

# The frequency of the host's TSC, which the guest's is too; nothing if it is not known.  A kernel
# that boots on a busy host may find another one, and its clock is then fast or slow.
vm_tsc_khz()
{
	dmesg 2>/dev/null |
		sed -nE 's/.*tsc: Detected ([0-9]+)\.([0-9]{3}) MHz (processor|TSC)$/\1\2/p' |
		tail -n 1
}

vm_cmdline()
{
	local khz
	# The emulated TSCs agree, but 6.1 does not trust them and would use the HPET: a slow system
	# call at each reading of the clock, with every post of librmem, unlike on real hosts.
	# norandmaps: the emulator translates code for one virtual address, so that with random
	# addresses every new process has libc and the rest translated again.
	# A CPU that the kernel keeps from all programs for twice the threshold is lost.
	VM_CMDLINE=(console=ttyS0 panic=-1 quiet mitigations=off nokaslr norandmaps net.ifnames=0
		tsc=reliable softlockup_panic=1 watchdog_thresh=60)
	khz=$(vm_tsc_khz)
	[ -z "$khz" ] || VM_CMDLINE+=("tsc_early_khz=$khz")
	vm_append_hugepages 2M "$VM_HUGE_2M"
	vm_append_hugepages 1G "$VM_HUGE_1G"
	if [ -n "$VM_SYSTEMD" ]; then
		VM_CMDLINE+=(systemd.unit=rig.target systemd.show_status=0 fstab=no
			systemd.log_level=notice systemd.journald.forward_to_console=0)
		local unit
		for unit in $VM_MASKED; do
			VM_CMDLINE+=("systemd.mask=$unit.service")
		done
	fi
	VM_CMDLINE+=("${VM_APPEND[@]}")
}

vm_args_cables()
{
	local other=a host=01 socket n netdev card
	[ "$VM_SIDE" = b ] || other=b
	[ "$VM_SIDE" = a ] || host=02
	for ((n = 0; n < VM_DEVICES; n++)); do
		socket=$(vm_quote "$VM_CABLE/wire$n-")
		netdev="dgram,id=n$n,local.type=unix,local.path=$socket$VM_SIDE"
		netdev+=",remote.type=unix,remote.path=$socket$other"
		card="virtio-net-pci,netdev=n$n,host_mtu=9000,mrg_rxbuf=on"
		card+=",mac=52:54:00:00:0$n:$host"
		VM_ARGS+=(-netdev "$netdev" -device "$card")
	done
	vm_9p "$VM_CABLE/peer" peer
}

vm_args()
{
	# in turn: a CPU that waits for another one spins, and for long if the host runs other
	# machines
	local accel=tcg,thread=single
	[ -z "$VM_PARALLEL" ] || accel=tcg,thread=multi
	# no ERMS: the kernel would copy and zero with `rep movsb`, which the emulator does bytewise
	VM_ARGS=(-cpu 'max,-erms' -no-reboot -display none -vga none -nodefaults)
	if [ -n "$VM_ICOUNT" ]; then
		VM_CPUS=1
		accel=tcg,thread=single
		VM_ARGS+=(-icount 'shift=1,sleep=on')
	fi
	vm_args_memory
	vm_cmdline
	VM_ARGS+=(-accel "$accel" -kernel "$KERNEL_DIR/vmlinux" -initrd "$KERNEL_INITRD"
		-append "${VM_CMDLINE[*]}"
		-serial "file:$(vm_quote "$SCRATCH/console")"
		-device virtio-rng-pci
		-device 'isa-debug-exit,iobase=0xf4,iosize=4'
		-device virtio-serial
		-chardev "file,id=out,path=$(vm_quote "$SCRATCH/out"),append=on"
		-device 'virtserialport,chardev=out,name=out'
		-chardev "file,id=err,path=$(vm_quote "$SCRATCH/err"),append=on"
		-device 'virtserialport,chardev=err,name=err')
	vm_9p / root ,readonly=on
	vm_9p "$SCRATCH/x" exchange
	[ -z "$VM_SHARE" ] || vm_9p "$VM_SHARE" share
	[ -z "$VM_SIDE" ] || vm_args_cables
	VM_ARGS+=("${VM_QEMU[@]}")
}

# Fill the directory that the guest has as /rig.
vm_exchange()
{
	mkdir -p "$SCRATCH/x/peer"
	chmod 755 "$SCRATCH/x"
	cp -r "$RIG_DIR/guest" "$SCRATCH/x/guest"
	printf '%s=%q\n' RIG_KERNEL_DIR "$KERNEL_DIR" RIG_CWD "$PWD" \
		RIG_DEVICE "$VM_DEVICE" RIG_DEVICES "$VM_DEVICES" RIG_SIDE "$VM_SIDE" \
		RIG_SYSTEMD "$VM_SYSTEMD" RIG_SHARE "$VM_SHARE" >"$SCRATCH/x/conf"
	if [ $# -eq 1 ]; then
		printf '%s\n' "$1" >"$SCRATCH/x/cmd"
	else
		printf '%q ' "$@" >"$SCRATCH/x/cmd"
	fi
}

# Run qemu until it ends; sets VM_STATUS to its exit status, 124 for a time-out.  The output comes
# through FIFOs.  This shell has write ends of them until then, so that each cat ends after qemu,
# also if qemu never opened the FIFO.
vm_qemu()
{
	local out err cat_out cat_err qemu hold=$SCRATCH_HOLD
	rm -f "$SCRATCH/out" "$SCRATCH/err"
	mkfifo "$SCRATCH/out" "$SCRATCH/err"
	exec {out}<>"$SCRATCH/out" {err}<>"$SCRATCH/err"
	cat <"$SCRATCH/out" {out}>&- {err}>&- {hold}>&- &
	cat_out=$!
	cat <"$SCRATCH/err" >&2 {out}>&- {err}>&- {hold}>&- &
	cat_err=$!
	SCRATCH_CHILDREN+=("$cat_out" "$cat_err")
	setpriv --pdeathsig TERM timeout -k 3 "$VM_TIMEOUT" \
		setpriv --pdeathsig KILL qemu-system-x86_64 "${VM_ARGS[@]}" \
		</dev/null >"$SCRATCH/qemu.log" 2>&1 {out}>&- {err}>&- {hold}>&- &
	qemu=$!
	SCRATCH_CHILDREN=("$qemu" "${SCRATCH_CHILDREN[@]}")
	vm_wait "$qemu"
	exec {out}>&- {err}>&-
	wait "$cat_out" "$cat_err"
	SCRATCH_CHILDREN=()
}

# Wait until qemu ends or the reader of standard output does: tail ends when its pipe has no reader.
vm_wait()
{
	local reader='' first=
	if [ -p /dev/stdout ]; then
		setpriv --pdeathsig KILL tail -f /dev/null {out}>&- {err}>&- {hold}>&- &
		reader=$!
		SCRATCH_CHILDREN+=("$reader")
	fi
	VM_STATUS=0
	wait -n -p first "$1" $reader || VM_STATUS=$?
	[ "$first" != "$reader" ] || exit 141
	[ -n "$reader" ] || return 0
	kill "$reader" 2>/dev/null || true
	wait "$reader" || true
}

# Whether the VM died before it ran CMD.  A kernel changes its own code while it boots; at times the
# emulator of another CPU executes the old code.
vm_boot_failed()
{
	[ "$VM_STATUS" != 124 ] && [ "$VM_STATUS" != 137 ] &&
		[ ! -s "$SCRATCH/x/session" ] && [ ! -s "$SCRATCH/x/status" ]
}

# Whether the VM died, which it may, before CMD had ended.
vm_lives_again()
{
	[ ! -s "$SCRATCH/x/status" ] && [ "$VM_STATUS" != 124 ] && [ "$VM_STATUS" != 137 ] &&
		[ $((VM_LIVES -= 1)) -gt 0 ]
}

# Whether the VM's kernel ended with a double fault or a soft lockup.  On a busy host the emulator
# at times resumes an interrupted kernel with wrong registers; a program in the VM cannot.
vm_kernel_failed()
{
	grep -Eqs 'PANIC: double fault|Kernel panic - not syncing: softlockup' "$SCRATCH/console"
}

# Return the exit status of CMD, or print why there is none.
vm_result()
{
	local status=
	[ ! -s "$SCRATCH/x/status" ] || status=$(cat "$SCRATCH/x/status")
	[ -z "$status" ] || return "$status"
	if [ "$VM_STATUS" = 124 ] || [ "$VM_STATUS" = 137 ]; then
		say "time-out after $VM_TIMEOUT s; end of the console:"
		status=124
	else
		say "the VM died (qemu: $VM_STATUS); end of the console:"
		status=125
		! vm_kernel_failed || status=126
	fi
	{
		cat "$SCRATCH/qemu.log"
		[ ! -s "$SCRATCH/console" ] || tail -n 60 "$SCRATCH/console"
	} >&2
	return "$status"
}

vm_check()
{
	[ ${#VM_WORDS[@]} -gt 0 ] || usage_error "no command to run"
	if [ -n "$VM_SHARE" ]; then
		[ -d "$VM_SHARE" ] || usage_error "--share: '$VM_SHARE' is no directory"
		VM_SHARE=$(readlink -f "$VM_SHARE")
	fi
	[ "$VM_DEVICE" = none ] || need rdma iproute2
	if [ -n "$VM_SYSTEMD" ] && [ ! -x /lib/systemd/systemd ]; then
		unavailable "missing: systemd (Debian package systemd)"
	fi
}

vm_main()
{
	vm_defaults
	vm_parse '' vm_option "$@"
	vm_check
	kernel_prepare "$VM_KERNEL"
	scratch_open
	[ "$VM_DEVICE" != siw ] || siw_prepare "$VM_KERNEL"
	vm_exchange "${VM_WORDS[@]}"
	vm_args
	vm_qemu
	if vm_boot_failed; then
		say "the VM died before it ran CMD; starting it once more"
		vm_qemu
	fi
	while vm_lives_again; do
		vm_qemu
	done
	vm_result
}
