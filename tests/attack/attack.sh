#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An attacker tries what the daemon and the library must refuse, beside honest clients that must not
# notice.  Prints a line per attempt; the last line has the totals.
#   RMEM_ATTACK_GROUPS  the groups of attempts, default all that apply
#   RMEM_ATTACK_ROUNDS  1; higher: attempts that guess or flood take that many times longer
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh" || exit 1
need openssl

rounds=${RMEM_ATTACK_ROUNDS:-1}
# over RDMA those that depend on the fabric
all="tokens keys bounds leases restart"
if [ "$FABRIC" = tcp ]; then
	all+=" numbers tls handshakes frames admin certificates server floods strangers"
else
	all+=" requests"
fi
# these sanitizers keep much memory of their own, and freed memory
! grep -qE -- '-fsanitize=(address|thread)' "$top_builddir/Makefile" || all=${all/ floods/}
groups=" ${RMEM_ATTACK_GROUPS:-$all} "
n_attempts=0 n_refused=0 n_noticed=0 costs=()
attack=$(built tests/attack/attack)
honest=$(built tests/attack/honest)
pings=$(built tests/attack/pings)
fabric=$FABRIC
[ "$fabric" = tcp ] || fabric=rdma

# wanted NAME...: those of the groups that were asked for
wanted()
{
	local name
	for name; do
		[[ $groups != *" $name "* ]] || echo "$name"
	done
}

costs_print()
{
	[ ${#costs[@]} -eq 0 ] || printf '%s\n' "${costs[@]}"
}

# The attacker asks for a restart of the daemon by a line "restart SIGNAL", and waits for a line.
answer_requests()
{
	local line
	while IFS= read -r line; do
		case $line in
		restart\ *)
			kill -"${line#restart SIG}" "$server_pid"
			process_await "$server_pid" 30 || fail "rmemd did not end"
			server_restart
			echo >&"$to_attacker"
			;;
		cost\ *)
			costs+=("${line#cost }")
			;;
		*' attempts, '*' refused')
			n_attempts=$((n_attempts + ${line%% *}))
			line=${line#*, }
			n_refused=$((n_refused + ${line%% *}))
			;;
		*)
			echo "$line"
			if [[ $line == FAIL:* ]]; then
				costs_print
				exit 1
			fi
			;;
		esac
	done
}

# The command that runs these groups of attempts
attack_command()
{
	timeout $((300 * rounds * patience)) "$attack" "$dir" "$LISTEN" "$port" \
		$((port + 2)) "$fabric" "$rounds" "$@" 2>&1
}

# run_attack GROUP...: run these groups of attempts against the daemon
run_attack()
{
	local from
	[ $# -gt 0 ] || return 0
	mkfifo "$dir/to-attacker"
	exec {to_attacker}<>"$dir/to-attacker"
	rm "$dir/to-attacker"
	exec {from}< <(attack_command "$@" <&"$to_attacker")
	answer_requests <&"$from"
	exec {from}<&- {to_attacker}>&-
}

honest_pids=()

# honest_start NAME COMMAND...
honest_start()
{
	"${@:2}" >"$dir/honest-$1.out" 2>&1 &
	pids+=($!)
	honest_pids+=($!)
	poll_await 30 grep -q '^ready' "$dir/honest-$1.out" ||
		fail "the honest client of $1 does not start: $(cat "$dir/honest-$1.out")"
}

# End the honest clients, and count those that noticed something.
honest_stop()
{
	local pid
	for pid in "${honest_pids[@]}"; do
		kill -TERM "$pid" 2>/dev/null || true
		process_await "$pid" 60 || fail "an honest client does not end"
		[ "$process_status" -eq 0 ] || n_noticed=$((n_noticed + 1))
	done
	honest_pids=()
	grep -H '^noticed' "$dir"/honest-*.out | sed 's,.*/honest-,,' || true
}

# ---- a hostile server, beside all that follows: it mostly waits ----

for tenant in red blue mallory reader narrow; do
	"$RMEMCTL" keygen "$tenant" "$dir" >/dev/null
done
"$attack" "$dir" files
ports_choose
server_groups=$(wanted server)
if [ -n "$server_groups" ]; then
	RMEM=$RMEM attack_command "$server_groups" >"$dir/hostile-server.out" </dev/null &
	server_attack=$!
	pids+=("$server_attack")
fi

# ---- pre-shared keys ----

state_keep
config_extra="
[pool private]
size = 16M
page_size = base
[tenant red]
[tenant blue]
[tenant mallory]
[tenant reader]
access = read-only
[tenant narrow]
names = narrow/*
pools = private
sessions = 2
channels = 4
lease_max = 64M
[server]
auth = psk
psk = $dir/rmemd.psk
[limits]
connections = 32
[admin]
view_group = daemon
"
# a pool on huge pages too, where the kernel gives them to shared memory
if grep -qE '\[(always|within_size|advise)\]' \
	/sys/kernel/mm/transparent_hugepage/shmem_enabled; then
	config_extra+="
[pool huge]
size = 16M
page_size = thp
"
fi
mapfile -t here < <(wanted tokens keys bounds leases numbers tls handshakes frames admin)
server_start
if [ ${#here[@]} -gt 0 ]; then
	honest_start red "$honest" "$uri&psk=$dir/red.psk"
	honest_start blue "$honest" "$uri&psk=$dir/blue.psk"
	run_attack "${here[@]}"
	honest_stop
fi
mapfile -t here < <(wanted restart)
run_attack "${here[@]}"
server_stop

# the configuration of daemons with two tenants
pings_config="
[tenant red]
[tenant mallory]
[server]
auth = psk
psk = $dir/rmemd.psk
"

# ---- floods, of whom an own daemon is measured ----

mapfile -t here < <(wanted floods)
if [ ${#here[@]} -gt 0 ]; then
	ports_choose
	config_extra+="[metrics]
listen = $LISTEN:$((port + 1))"
	server_config
	server_restart
	run_attack floods
	server_stop
	config_extra+="
[tcp]
tls = yes"
	server_config
	server_restart
	run_attack floods-tls
	server_stop
	# where no more is free than the pool and the ledger need
	config_extra=$pings_config pool_size=16M grace=60s
	if unshare -m true 2>/dev/null; then
		netns_exec=(unshare -m sh \
			-c "mount -t tmpfs -o mode=700,size=22M none '$state' && exec \"\$@\"" sh)
	fi
	server_config
	server_restart
	run_attack floods-ledger
	server_stop
	netns_exec=() pool_size=192M grace=10s
fi

# ---- what others cost the daemon and honest sessions is measured ----

# pings_run GROUP: beside honest sessions that ping
pings_run()
{
	server_config
	server_restart
	honest_start pings "$pings" "$uri&psk=$dir/red.psk" "$dir/pings"
	run_attack "$1"
	honest_stop
	server_stop
}

mapfile -t here < <(wanted strangers)
if [ ${#here[@]} -gt 0 ]; then
	ports_choose
	config_extra=$pings_config
	pings_run strangers
	config_extra="${config_extra/auth = psk/auth = both}
certificate = $dir/server.pem
key = $dir/server.pem
ca = $dir/ca.pem
"
	pings_run strangers-both
fi

# The network device of the daemon's address asks for hosts, as a real one does, and a dummy does
# not.
if [ -n "$(wanted requests)" ]; then
	netdev=$(ip -o address show to "$LISTEN" | awk '{ print $2 }')
	noarp=$(ip -o link show dev "$netdev" | grep NOARP || true)
	[ -z "$noarp" ] || ip link set dev "$netdev" arp on
	ports_choose
	config_extra=$pings_config
	pings_run requests
	[ -z "$noarp" ] || ip link set dev "$netdev" arp off
fi

# ---- certificates ----

config_extra="
[tenant red]
certificates = spiffe://example.org/red/*
[tenant blue]
[tenant mallory]
certificates = spiffe://example.org/mallory/*
[server]
auth = certificate
certificate = $dir/server.pem
key = $dir/server.pem
ca = $dir/ca.pem
"
mapfile -t here < <(wanted certificates)
if [ ${#here[@]} -gt 0 ]; then
	server_start
	export RMEM_CA=$dir/ca.pem RMEM_CERT=$dir/red.pem RMEM_KEY=$dir/red.pem
	honest_start red "$honest" "$uri&tenant=red"
	unset RMEM_CA RMEM_CERT RMEM_KEY
	run_attack "${here[@]}"
	honest_stop
	server_stop
fi

if [ -n "$server_groups" ]; then
	process_await "$server_attack" 300 || fail "the hostile server does not end"
	answer_requests <"$dir/hostile-server.out"
fi

costs_print
echo "$n_attempts attempts, $n_refused refused, $n_noticed noticed"
[ "$n_attempts" -gt 0 ] && [ "$n_refused" -eq "$n_attempts" ] && [ "$n_noticed" -eq 0 ]
