#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What the pages rmem-deployment(7), rmem-programming(7) and rmem-tuning(7) tell to type is right,
# and what these and rmem-security(7) say of the sources; and so are the configurations in
# README.md.
#
# The comment before each display of these pages says how it is tested, and a display without one is
# an error:
#
#   .\" run: shell              commands: they run, with the programs of this build and a daemon on
#                               loopback, whose name is mem1.example
#   .\" run: config             a part of rmemd.conf: rmemd --check-config accepts it
#   .\" run: config, and serve  ... and the daemon of the next displays has it, but for addresses
#                               and pools
#   .\" run: compile NAME [ARGUMENT...]  a program: it is compiled and runs against the daemon
#   .\" run: unit NAME          a unit: systemd-analyze accepts it
#   .\" run: prometheus         a configuration of Prometheus: promtool accepts it
#   .\" output of NAME          what the program has printed
#   .\" not run: WHY            commands that need hardware or change a host: they run with programs
#                               in place of those of the host, which know what words there are (see
#                               `words`).  nft and ip are the real ones, in a network namespace.
#
# Files below /etc, /sys and /dev/shm are those of a folder, which is the host of all displays of a
# page.  A file of /sys must be there.  rmem bench takes 20 ms; findings of doctor do not count.
# A comment `.\" see FILE: TEXT` is behind a number: FILE of this tree must have TEXT.  Commands,
# benchmarks, groups of attacks, metrics and files of tests that the text names exist.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib.sh"
need jq openssl promtool
! with_tsan ||
	skip "ThreadSanitizer cannot follow the threads of a forked child, which one program has"

# commands run in other folders
top_srcdir=$(cd "$top_srcdir" && pwd)
names=(rmem-deployment rmem-programming rmem-tuning)
host=$dir/host

# ---- the displays of the pages ----

# displays PAGE: write each display to the file N, and its mark to N.mark
displays()
{
	awk -v page="$1" -v folder="$dir/$1" '
	function bad(text) { print page ":" NR ": " text; failed = 1; exit }
	on && /^\.Ed/ { on = 0; close(file); next }
	on && /^[.\047]/ { bad("a macro in a display") }
	on { rest = $0; gsub(/\\[e&-]/, "", rest)
		if (rest ~ /\\/) bad("an escape that this test does not know")
		gsub(/\\e/, "\\"); gsub(/\\-/, "-"); gsub(/\\&/, ""); print >file; next }
	/^\.D[l1]/ { bad("a command is in a display, with a mark") }
	/^\.Bd/ && (!/^\.Bd -literal/ || mark == "") { bad("a display without a mark") }
	/^\.Bd/ { file = sprintf("%s/%02d", folder, ++n); on = 1
		print mark >(file ".mark"); close(file ".mark") }
	{ mark = /^\.\\" (run|not run|output of)/ ? substr($0, 5) : "" }
	END { if (!failed) print n; exit failed }' "$top_srcdir/man/$1.7"
}

# ---- the host ----

# The words that the programs in place of those of a host know.
words='
apt install( \./[a-z0-9_.*-]+)+
apt remove [a-z0-9-]+
chgrp rmem [^ ]*(/etc/rmem/rmemd\.psk|server\.key)
dcb pfc set dev eth1 prio-pfc [0-7]:(on|off)
dcb pfc show dev eth1
dcb app add dev eth1 dscp-prio [0-9]+:[0-7]
groupadd --system [a-z-]+
modprobe (tls|rdma_rxe)
nstat -az TcpExtBusyPollRxPackets
rdma link show
rdma link add rxe0 type rxe netdev eth1
sysctl( net\.ipv4\.tcp_[rw]mem)+
sysctl --system
systemd-tmpfiles --create rmem-state.conf
systemctl daemon-reload
systemctl (enable --now|start|restart|stop)( rmemd(\.socket)?| rmem-hugepages)+
systemctl is-active rmemd
update-grub
usermod -aG [a-z,-]+ [a-z]+
'

# a network namespace of its own with the interface that the pages name
net="$(command -v ip || echo ip) link add eth1 type veth peer name eth2 && exec \"\$@\""

programs_make()
{
	local program

	mkdir "$dir/bin"
	cat >"$dir/bin/known" <<-'END'
		#!/bin/bash
		line="${0##*/}${*:+ $*}"
		while read -r known; do
			[ -n "$known" ] && [[ $line =~ ^$known$ ]] && exit 0
		done <"${0%/*}/words"
		echo "no such words: $line" >&2
		exit 1
	END
	echo "$words" >"$dir/bin/words"
	while read -r program _; do
		[ -z "$program" ] || ln -sf known "$dir/bin/$program"
	done <<<"$words"

	cat >"$dir/bin/rmem" <<-END
		#!/bin/bash
		case "\$* \${RMEM_SERVER-} \${RMEM_CA+ca=}" in
		*ca=*) export RMEM_SERVERNAME=mem1.example ;;
		esac
		case " \$* " in
		*" bench "*) exec '$RMEM' "\$@" --duration 20ms ;;
		*" doctor"*) '$RMEM' "\$@" || [ \$? -ge 3 ] ;;
		*) exec '$RMEM' "\$@" ;;
		esac
	END
	cat >"$dir/bin/rmemctl" <<-END
		#!/bin/bash
		case " \$* " in
		*" doctor"*) '$RMEMCTL' --socket '$dir/admin.sock' "\$@" || [ \$? -ge 3 ] ;;
		*) exec '$RMEMCTL' --socket '$dir/admin.sock' "\$@" ;;
		esac
	END
	ln -s "$RMEMD" "$dir/bin/rmemd"
	# sanitizers of one compiler are not those of another
	cat >"$dir/bin/cc" <<-END
		#!/bin/bash
		exec ${compiler[*]} "\$@"
	END
	# that of a host where librmem is installed
	cat >"$dir/bin/pkg-config" <<-END
		#!/bin/bash
		[ "\$*" = "--cflags --libs librmem" ] || exit 1
		echo "$flags"
	END
	# in place of the pinning: on which nodes this may run is no matter of the page
	cat >"$dir/bin/numactl" <<-'END'
		#!/bin/bash
		[ "$*" != -H ] || exit 0
		while [[ $1 =~ ^--(cpunodebind|membind|preferred)=[0-9]+$ ]]; do shift; done
		[[ $1 != -* ]] && exec "$@"
	END
	# a benchmark and its options exist
	cat >"$dir/bin/dev" <<-END
		#!/bin/bash
		[ "\$1" = bench ] || exit 1
		[ \$# -gt 1 ] || exit 0
		[ "\$2" != loopback ] || { shift 2; exec rmem bench "\$@"; }
		export top_srcdir='$top_srcdir' top_builddir='$top_builddir'
		usage=\$(bash "\$top_srcdir/tests/bench/\$2.sh" -h) || exit 1
		for option in "\${@:3}"; do
			[[ \$option != --* ]] || grep -q -- "[[]\$option[] ]" <<<"\$usage" || exit 1
		done
	END
	# commands that change a network: the real ones, in a namespace of their own
	if unshare -rn sh -c "$net" sh true 2>/dev/null; then
		cat >"$dir/bin/ip" <<-END
			#!/bin/bash
			exec unshare -rn sh -c '$net' sh "$(command -v ip)" "\$@"
		END
		cat >"$dir/bin/nft" <<-END
			#!/bin/bash
			printf '%s\n' 'add table inet filter' \
				'add chain inet filter input {
					type filter hook input priority 0; }' \
				"\$*" |
				unshare -rn "$(command -v nft)" -c -f -
		END
	else
		ok "no network namespaces: what ip and nft are told is not examined"
		echo '#!/bin/bash' | tee "$dir/bin/ip" >"$dir/bin/nft"
	fi
	chmod +x "$dir"/bin/*
}

host_make()
{
	local node pages folder

	rm -rf "$host" "$dir/work"
	mkdir -p "$host"/etc/{rmem,modprobe.d,modules-load.d,security/limits.d,sysctl.d} \
		"$host"/etc/{systemd/system,tmpfiles.d} \
		"$host"/sys/kernel/mm/transparent_hugepage \
		"$host"/sys/kernel/config/rdma_cm/mlx5_0/ports/1 "$host/dev/shm" "$dir/work"
	for node in 0 1; do
		for pages in 2048 1048576; do
			folder=$host/sys/devices/system/node/node$node/hugepages
			folder+=/hugepages-${pages}kB
			mkdir -p "$folder"
			echo 0 >"$folder/nr_hugepages"
		done
	done
	echo never >"$host/sys/kernel/mm/transparent_hugepage/shmem_enabled"
	echo 0 >"$host/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos"
	(cd "$host/sys" && find . -type f | sort) >"$dir/sys"
	ln -s "$dir/bin/dev" "$dir/work/dev"
	(cd "$dir/work" && make_file file 100000)
}

# here FILE: its text, with the files of the host and the address of the daemon
here()
{
	sed -E "s#(^|[ >='\"(])/(etc|sys|dev/shm)/#\1$host/\2/#g
		s#\b(rmem://|RMEM_SERVER=)mem1\.example#\1$LISTEN:$port#g" "$1"
}

# Units and their additions that displays have written are good.
units_verify()
{
	local folder=$dir/units

	rm -rf "$folder"
	cp -R "$host/etc/systemd/system" "$folder"
	for unit in rmemd.service rmemd.socket; do
		sed -E 's|^ExecStart=.*|ExecStart=/bin/true|' "$top_builddir/systemd/$unit" \
			>"$folder/$unit"
	done
	SYSTEMD_UNIT_PATH=$folder: systemd-analyze verify --man=no "$folder"/*.{service,socket} \
		>"$dir/verified" 2>&1 || { cat "$dir/verified" && return 1; }
	! grep -E 'rmem' "$dir/verified"
}

# ---- how a display is tested ----

run_shell()
{
	here "$1" >"$dir/script"
	bash -n "$dir/script" || return 1
	(cd "$dir/work" && PATH=$dir/bin:$PATH RMEM_SERVER=$uri \
		timeout -k 5 $((60 * patience)) bash -euo pipefail "$dir/script")
}

run_stubs()
{
	run_shell "$1" || return 1
	(cd "$host/sys" && find . -type f | sort) | diff "$dir/sys" - ||
		{ echo "there is no such file in /sys" && return 1; }
	! grep -q /etc/systemd/ "$1" || ! command -v systemd-analyze >/dev/null || units_verify
}

run_config()
{
	here "$1" >"$dir/part.conf"
	"$RMEMD" --check-config --config "$dir/part.conf"
}

serve()
{
	run_config "$1" || return 1
	[ -z "$server_pid" ] || server_stop
	config_extra=$(grep -vE \
		'^(listen|insecure|size|node|page_size|devices|\[pool .*) *(=|\]|$)' \
		"$dir/part.conf")
	server_start
	[ "$(rmemctl --json status | jq -r .memory.lent_bytes)" = 0 ]
}

# run_compile FILE NAME [ARGUMENT...]
run_compile()
{
	local name=$2

	cp "$1" "$dir/work/$name.c"
	# shellcheck disable=SC2086 # words
	"${compiler[@]}" -std=gnu17 -Wall -Wextra -Werror -o "$dir/work/$name" \
		"$dir/work/$name.c" $flags || return 1
	read -ra arguments < <(here <(echo "${*:3}"))
	(cd "$dir/work" &&
		RMEM_SERVER=$uri timeout -k 5 $((60 * patience)) "./$name" "${arguments[@]}" \
		>"$name.out")
}

run_unit()
{
	command -v systemd-analyze >/dev/null || { ok "no systemd-analyze" && return; }
	cp "$1" "$host/etc/systemd/system/$2"
	units_verify
}

run_prometheus()
{
	mkdir -p "$dir/prometheus"
	sed "s#/usr/share/rmem/#$top_srcdir/etc/#" "$1" >"$dir/prometheus/prometheus.yml"
	promtool check config "$dir/prometheus/prometheus.yml"
}

# display FILE MARK
display()
{
	local arguments

	read -ra arguments <<<"${2#*: }"
	case $2 in
	"run: shell") run_shell "$1" ;;
	"run: config") run_config "$1" ;;
	"run: config, and serve") serve "$1" ;;
	"run: compile "*) run_compile "$1" "${arguments[@]:1}" ;;
	"run: unit "*) run_unit "$1" "${arguments[1]}" ;;
	"run: prometheus") run_prometheus "$1" ;;
	"output of "*) diff "$1" "$dir/work/${2#output of }.out" ;;
	"not run: "?*) run_stubs "$1" ;;
	*)
		echo "no such mark"
		return 1
		;;
	esac
}

# Commands, benchmarks and metrics that the text of the page $1 names exist.
names_check()
{
	local program rest word group

	while read -r program rest; do
		# the first word that is no option is the command
		word=$(tr ' ' '\n' <<<"$rest" | grep -m 1 '^[a-z]') || continue
		if [ "$program" = ./dev ]; then
			group=$(sed -nE 's/^attack ([a-z]+).*/\1/p' <<<"$rest")
			[ -z "$group" ] ||
				grep -q "{ \"$group\"," "$top_srcdir/tests/attack/attack.c" ||
				fail "$1(7): there is no ./dev $rest"
			word=$(sed -nE 's/^bench ([a-z-]+).*/\1/p' <<<"$rest")
			[ -z "$word" ] || [ -f "$top_srcdir/tests/bench/$word.sh" ] ||
				fail "$1(7): there is no ./dev $rest"
		else
			"$dir/bin/$program" --help | grep -qE "^  $word( |\$)" ||
				fail "$1(7): there is no $program $word"
		fi
	done < <(sed -nE 's#^\.Ql (rmem|rmemctl|\./dev) #\1 #p' "$top_srcdir/man/$1.7" |
		sed -E 's/-o wide//')
	rmemctl metrics >"$dir/metrics"
	while read -r word; do
		grep -qE "^# TYPE $word( |\$)" "$dir/metrics" ||
			fail "$1(7): there is no metric $word"
	done < <(sed -nE 's/^\.Va (rmemd_[a-z_]+).*/\1/p' "$top_srcdir/man/$1.7")
}

# What the page $1 says of the sources is so.
sources_check()
{
	local line word

	while IFS= read -r line; do
		grep -qF -- "${line#*: }" "$top_srcdir/${line%%: *}" ||
			fail "$1(7): ${line%%: *} has no '${line#*: }'"
	done < <(sed -n 's/^\.\\" see //p' "$top_srcdir/man/$1.7")
	while read -r word; do
		[ -e "$top_srcdir/$word" ] || fail "$1(7): there is no $word"
	done < <(sed -nE 's/^\.Pa (tests[^ ]*).*/\1/p' "$top_srcdir/man/$1.7")
}

# What README.md tells to write into rmemd.conf, and into Prometheus's configuration, is accepted.
readme_check()
{
	awk -v RS= '/^    \[/' "$top_srcdir/README.md" | sed 's/^    //' >"$dir/readme.conf"
	awk -v RS= '/^    rule_files:/' "$top_srcdir/README.md" | sed 's/^    //' >"$dir/readme.yml"
	grep -q '\[metrics\]' "$dir/readme.conf" || fail "README.md: there is no configuration"
	run_config "$dir/readme.conf" || fail "README.md: rmemd does not accept its configuration"
	run_prometheus "$dir/readme.yml" ||
		fail "README.md: Prometheus does not accept its configuration"
	ok "README.md: its configurations are accepted"
}

# what the pages say of the memory of sessions and leases: AT_MOST PROGRAM NUMBER, in bytes for each
memory_check()
{
	local before after

	before=$(awk '/^Anonymous:/ { print $2 }' "/proc/$server_pid/smaps_rollup")
	coproc HOLDER { exec "$top_builddir/tests/bench/$2" "$uri" "$3"; }
	local holder=$HOLDER_PID to=${HOLDER[1]}
	read -r -t $((60 * patience)) -u "${HOLDER[0]}" _ || fail "$2 has nothing to say"
	after=$(awk '/^Anonymous:/ { print $2 }' "/proc/$server_pid/smaps_rollup")
	echo >&"$to"
	wait "$holder"
	ok "$2: $(((after - before) * 1024 / $3)) bytes each, at most $1"
	[ $(((after - before) * 1024 / $3)) -le "$1" ] || fail "the page says that it is $1 at most"
}

read -ra compiler < <(sed -n 's/^CC = //p' "$top_builddir/Makefile")
compiler[0]=$(command -v "${compiler[0]}")
sanitize=$(sed -nE 's/^RMEM_CFLAGS = .*(-fsanitize=[^ ]*).*/\1/p' "$top_builddir/Makefile")
flags="$sanitize -I$top_srcdir/include -L$top_builddir/.libs -lrmem -lpthread"
programs_make

for name in "${names[@]}"; do
	mkdir "$dir/$name"
	n=$(displays "$name") || fail "$n"
	[ "$n" -gt 5 ] || fail "$name has $n displays"
	host_make
	config_extra=
	[ -z "$server_pid" ] || server_stop
	server_start
	for file in "$dir/$name"/??; do
		mark=$(<"$file.mark")
		display "$file" "$mark" >"$dir/out" 2>&1 </dev/null || {
			cat "$dir/out"
			sed 's/^/    /' "$file"
			fail "$name(7), display ${file##*/} ($mark)"
		}
	done
	ok "$name: $(sed -E 's/^(run: [a-z]+|not run|output).*/\1/' "$dir/$name"/*.mark | sort |
		uniq -c |
		sed -E 's/^ +//' | paste -sd, | sed 's/,/, /g')"
	names_check "$name"
	sources_check "$name"
done
names_check rmem-security
sources_check rmem-security
ok "rmem-security: what it names exists"
readme_check

if [ -z "$sanitize" ]; then
	server_stop
	config_extra=
	server_start
	# what sed finds are the rows of the table in rmem-deployment(7)
	kib=$(sed -n 's/^\.It a session Ta \([0-9]*\) KiB.*/\1/p' \
		"$top_srcdir/man/rmem-deployment.7")
	memory_check $((kib * 1024)) idle 500
	kib=$(sed -n 's/^\.It a lease that its session uses Ta \([0-9]*\) KiB.*/\1/p' \
		"$top_srcdir/man/rmem-deployment.7")
	memory_check $((kib * 1024)) scrape-leases 5000
fi
server_stop
