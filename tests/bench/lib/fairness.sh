# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The legs of the benchmark `fairness`; sourced on the host and in machines of the rig, with these
# variables set:
#   BIN              folder of the programs fairness-*
#   RMEMD, RMEMCTL   the programs
#   ADDRESS, FABRIC  of the daemon; tcp or rdma
#   DIR              an empty directory
#   SECONDS_EACH     duration of a measurement
#   INTERVAL_US      between two pings, and two writes; opens are 50 times as rare
#
# A leg has a daemon of its own.  The honest clients are of the tenant `honest`: one each that
# pings, writes and opens sessions, and $BYSTANDERS idle sessions.  The attackers are of the tenant
# `default`.  Real clients, honest or hostile, do not use the server's cores.  So the honest ones
# have realtime priority if the caller may give it, and the attackers the lowest.  The daemon keeps
# its own: with priority over the kernel's threads it would delay what it receives itself.

: "${BIN:?}" "${RMEMD:?}" "${RMEMCTL:?}" "${ADDRESS:?}" "${FABRIC:?}" "${DIR:?}"
: "${SECONDS_EACH:?}" "${INTERVAL_US:?}" "${top_srcdir:?}"
# shellcheck source=tests/bench/lib/daemon.sh
. "$top_srcdir/tests/bench/lib/daemon.sh"

PORT=17480
BYSTANDERS=100
OPS=(ping write open)
ATTACKERS=() # process ids
CLIENTS=()
# The command before that of a program.  Each gets a session of its own: where the kernel groups
# programs by session, the group's priority counts.
DAEMON=(setsid)
HONEST=(setsid)
! chrt --fifo 1 true 2>/dev/null || HONEST+=(chrt --fifo 1)
# shellcheck disable=SC2016 # expanded by the bash that it starts
HOSTILE=(setsid bash -c '{ echo 19 >/proc/$$/autogroup; } 2>/dev/null; exec nice -n 19 "$@"' \
	priority)

# ---- programs in the background ----

# attacker NAME PROGRAM ARGUMENT...: start one; its output is in NAME.out
attacker()
{
	local name=$1 program=$2
	shift 2
	"${HOSTILE[@]}" "$BIN/fairness-$program" "$ADDRESS" "$PORT" $((PORT + 1)) "$@" \
		>"$LEG/$name.out" 2>"$LEG/$name.err" </dev/null &
	attacker_add $!
}

# attacker_add PID: remember it, and keep bash from printing how it ends
attacker_add()
{
	ATTACKERS+=("$1")
	disown "$1"
}

# ready_await NAME PID: wait until the program prints "ready" or "idle"
ready_await()
{
	until grep -qsE '^(ready|idle)$' "$LEG/$1.out"; do
		kill -0 "$2" 2>/dev/null || {
			cat "$LEG/$1.err" >&2
			return 1
		}
		sleep 0.05
	done
}

# attackers_prepare NAME PROGRAM N ARGUMENT...: start N and wait until they are ready
attackers_prepare()
{
	local name=$1 program=$2 n=$3 i first=${#ATTACKERS[@]}
	shift 3
	for ((i = 0; i < n; i++)); do
		attacker "$name-$i" "$program" "$@"
	done
	for ((i = 0; i < n; i++)); do
		ready_await "$name-$i" "${ATTACKERS[first + i]}"
	done
}

# kill_all SIGNAL PID...: send it to those that still run
kill_all()
{
	local signal=$1 pid
	shift
	for pid; do
		kill -"$signal" "$pid" 2>/dev/null || true
	done
}

# end_await PID...: wait for their end, at most 20 s
end_await()
{
	local pid
	for pid; do
		timeout 20 tail --pid="$pid" -s 0.1 -f /dev/null || kill -KILL "$pid" 2>/dev/null ||
			true
		wait "$pid" 2>/dev/null || true
	done
}

# ---- honest clients ----

# client NAME COMMAND...: start one, which waits for a line after its preparation
client()
{
	local name=$1
	shift
	mkfifo "$LEG/$name.go"
	"${HONEST[@]}" "$@" <>"$LEG/$name.go" >"$LEG/$name.out" 2>"$LEG/$name.err" &
	CLIENTS+=($!)
	ready_await "$name" $!
}

clients_start()
{
	local uri="rmem://$ADDRESS:$PORT?fabric=$FABRIC&tenant=honest" op interval

	client bystanders "$BIN/idle" "$uri" "$BYSTANDERS"
	for op in "${OPS[@]}"; do
		interval=$INTERVAL_US
		[ "$op" != open ] || interval=$((50 * INTERVAL_US))
		client "$op" "$BIN/fairness-client" "$uri" "$op" "$interval" "$SECONDS_EACH"
	done
}

# Let the clients measure.
clients_go()
{
	local op

	for op in "${OPS[@]}"; do
		echo >"$LEG/$op.go"
	done
}

# Wait until they have measured; the first client is the process of the bystanders.
clients_await()
{
	local pid

	for pid in "${CLIENTS[@]:1}"; do
		wait "$pid" || echo "fairness: an honest client ended with status $?" >&2
	done
}

# How often honest sessions were fenced.  Those of the bystanders are left: each that was fenced has
# resumed, or is fenced now, or is gone.
fenced_count()
{
	daemon_ctl sessions | jq --argjson n "$BYSTANDERS" \
		'[.sessions[] | select(.tenant == "honest")]
		| (map(.resumes + (if .state == "fenced" then 1 else 0 end)) | add // 0)
		+ ([$n - length, 0] | max)'
}

# ---- a leg ----

# The daemon and the clients of this leg use TLS, for data too.  The honest ones get their key here,
# the attackers in prepare_*.
tls_begin()
{
	"$RMEMCTL" keygen honest "$LEG" >/dev/null
	"$RMEMCTL" keygen default "$LEG" >/dev/null
	TLS="[server]
auth = psk
psk = $LEG/rmemd.psk
[tcp]
tls = yes"
	export RMEM_PSK=$LEG/honest.psk
}

# leg NAME: measure beside the attack; prints a row.  prepare_NAME and attack_NAME are functions;
# the second one starts when the measurement does.
leg()
{
	local name=$1 op fenced turn

	LEG=$DIR/$name
	ATTACKERS=() CLIENTS=()
	mkdir "$LEG"
	unset RMEM_PSK
	TLS=
	[ "$name" != channels ] || tls_begin
	daemon_start "$LEG" "$ADDRESS" "$PORT" "$FABRIC" "[session]
grace = ${GRACE[$name]:-60s}
[tenant honest]
[tenant default]
[pool main]
size = ${POOL_MIB}M
page_size = base
$TLS" "${DAEMON[@]}" "$RMEMD"
	clients_start
	"prepare_$name"
	clients_go
	"attack_$name"
	clients_await
	turn=$(daemon_ctl status |
		jq '.turns.cpu_longest_us as $us | if $us then $us / 1000 else null end')
	fenced=$(fenced_count)
	attackers_end
	echo >"$LEG/bystanders.go"
	end_await "${CLIENTS[0]}"
	kill -TERM "$DAEMON_PID"
	end_await "$DAEMON_PID"
	for op in "${OPS[@]}"; do
		grep -v '^ready$' "$LEG/$op.out"
	done | jq -cs --arg attack "$name" --argjson turn "$turn" \
		--argjson fenced "$fenced" --argjson "done" "$(attackers_sum 2)" \
		--argjson refused "$(attackers_sum 4)" \
		'{attack: $attack, done: $done, refused: $refused, turn_ms: $turn, fenced: $fenced,
		  ops: (map({(.op): del(.op)}) | add)}'
}

attackers_end()
{
	kill_all TERM "${ATTACKERS[@]}"
	kill_all CONT "${ATTACKERS[@]}"
	end_await "${ATTACKERS[@]}"
	ATTACKERS=()
}

# attackers_sum COLUMN: of the lines "done N refused N" of those whose name begins with "attack"
attackers_sum()
{
	cat "$LEG"/attack*.out 2>/dev/null |
		awk -v column="$1" '$1 == "done" { sum += $column } END { printf "%d\n", sum }'
}

# At the end of the script: end the programs that an error has left.
legs_end()
{
	local status=$?

	[ "$status" -eq 0 ] || tail -n 5 "$LEG"/*.err "$LEG/rmemd.log" >&2
	kill_all KILL "${ATTACKERS[@]}" "${CLIENTS[@]}" ${DAEMON_PID:+"$DAEMON_PID"}
}

# ---- the attacks ----

POOL_MIB=2048
SESSIONS=200
LEASES=65000
declare -A GRACE=([rack]=1s)

prepare_alone() { :; }
attack_alone() { :; }
prepare_again() { :; }
attack_again() { :; }

# 30,000 leases of 4 KiB; 8,000 requests for 2 MiB, eight times as much as there is
prepare_waiters()
{
	attackers_prepare holder holder 1 32 30000 4096 0
}
attack_waiters()
{
	attacker attack waiters 32 8000 $((2 << 20))
}

# 65,000 named leases of one session, listed by 200 others
prepare_list()
{
	attackers_prepare holder holder 1 1 "$LEASES" 4096 1
}
attack_list()
{
	local i
	for i in 1 2 3 4; do
		attacker "attack-$i" lister $((SESSIONS / 4))
	done
}

# 200 sessions with 65,000 leases die, twice: they fall silent, as in a power cut; and their
# connections end, as when the programs are killed.  The second rack is started while the clients
# measure.  Takes some 12 s.
rack_start()
{
	attackers_prepare "attack-$1" holder 4 $((SESSIONS / 4)) $((LEASES / 4)) 4096 0
}
prepare_rack()
{
	rack_start silent
}
attack_rack()
{
	local silent=("${ATTACKERS[@]}")

	kill_all STOP "${silent[@]}"
	sleep 4 # until they are fenced, and until their grace is over
	ATTACKERS=()
	rack_start killed
	kill_all KILL "${silent[@]}" "${ATTACKERS[@]}"
	ATTACKERS=()
}

# 4 sessions with 8 channels each, all full of requests for checksums
prepare_checksums() { :; }
attack_checksums()
{
	local i
	for i in 1 2 3 4; do
		attacker "attack-$i" checksums 8 300
	done
}

# connections without a hello, as fast as they can be opened, to both ports
prepare_connections() { :; }
attack_connections()
{
	attacker attack-control connections "$PORT" 256
	attacker attack-data connections $((PORT + 1)) 256
}

# sessions that are opened and abandoned
prepare_hellos() { :; }
attack_hellos()
{
	attacker attack hellos
}

# `rmemctl leases` each second, at 65,000 leases
prepare_leases()
{
	attackers_prepare holder holder 1 "$SESSIONS" "$LEASES" 4096 0
}
attack_leases()
{
	show_each_second leases
}

# show_each_second VIEW...: by rmemctl
show_each_second()
{
	local view

	while :; do
		for view; do
			"$RMEMCTL" --socket "$LEG/admin.sock" "$view" >"$LEG/$view" || exit
			echo "done 1 refused 0"
		done
		sleep 1
	done >"$LEG/attack-show.out" &
	attacker_add $!
}

# 500 sessions watch a lease, which four of them notify, each as soon as the last one is answered
prepare_watchers()
{
	attackers_prepare attack watchers 4 125
}
attack_watchers() { :; }

# channels that are opened, used and closed
prepare_channels()
{
	export RMEM_PSK=$LEG/default.psk
}
attack_channels()
{
	local i
	for i in 1 2 3 4 5 6 7 8; do
		attacker "attack-$i" channels 16
	done
}

# 65,000 named leases, as many labels of sessions that have ended, and a new label for each lease
# that is made again
prepare_labels()
{
	attackers_prepare attack labels 4 $((LEASES / 4))
}
attack_labels()
{
	show_each_second sessions leases
}

# nearly as many attachments with keys, all watched, as a tenant may have leases with four of them
# each; the sessions are as many as others leave
prepare_names()
{
	attackers_prepare attack names 1 700 290
}
attack_names() { :; }

# rdma_cm connections that are never completed
prepare_halfopen()
{
	attackers_prepare attack halfopen 1 64 60000
}
attack_halfopen() { :; }
