# shellcheck shell=bash disable=SC2015,SC2153,SC2154
# SPDX-License-Identifier: BSD-3-Clause
# The server of two machines, with the default times: heartbeat 500 ms, fence 2 s.  However a client
# falls silent, its rkeys reach nothing later than 2 s after its last sign of life, and for ever:
# when its packets arrive again, or its processes go on, they change nothing.  The client is
# `stubborn`, which writes as long as its rkey works; `witness` looks at the server's memory, and
# asks the server's kernel when data arrived last on the control connection.
#   RMEM_SILENCES  rounds of each way to fall silent, default 1
# A host that is busy may not run the server's machine for a while, and the machine is late then: a
# round that is too late is done again if the machine stood still longer than still_ms in it.
# shellcheck source=tests/rig/parts/silence-waves.sh
: "${top_srcdir:?}"
. "$top_srcdir/tests/rig/parts/silence-waves.sh"
rounds=${RMEM_SILENCES:-1}
fence_ms=2000 still_ms=40 repeats=$((4 * rounds + 4)) late=0

# The two sessions of a wave do not disturb each other before the fence.
waves=()
for ((round = 0; round < rounds; round++)); do
	waves+=("control-cut stop" "keeper-stop kill")
	((round % 2)) || continue
	for kind in keeper-kill cut cut-to-server cut-to-client; do
		waves+=("$kind $kind")
	done
	if ((round % 4 == 1)); then waves+=("panic panic"); else waves+=("power-off power-off"); fi
done
if ((rounds % 2)); then
	waves+=(keeper-kill cut cut-to-server cut-to-client power-off)
fi
modprobe tcp_diag || fail "no tcp_diag"
config_write /tmp/rmemd.conf "server: listen=10.8.0.1 $(keys_give)" "rdma: enabled=yes" \
	"pool main: size=16M"
server_start /tmp/rmemd.conf
# the CPU of this machine also works as the RDMA device: the main loop, and only it, goes first
renice -n -15 -p "$SERVER_PID" >/dev/null || fail renice
rig-mark serving

# broken TEXT: as fail, with the end of rmemd's log
broken()
{
	tail -n 30 /tmp/rmemd.log >&2
	fail "$@"
}

# As the client falls silent, in ways that need the server
server_deaf()
{
	local kind port
	while read -r kind _ port; do
		case $kind in
		control-cut) drop u32 match ip protocol 6 0xff match ip sport "$port" 0xffff \
			match ip dport 7460 0xffff ;;
		cut | cut-to-server) drop matchall ;;
		esac
	done <"$1"
}

server_hears()
{
	! grep -qE '^(control-cut|cut|cut-to-server) ' "$1" || drop_end
}

fenced()
{
	grep -c 'session-fenced' /tmp/rmemd.log
}

wave_watch()
{
	local wave=$1 sessions=$sessions_of$1 before wanted line
	echo "${waves[wave]-}" >"$kinds_of$wave"
	rig-mark go."$wave"
	rig-await begin."$wave" 300 || broken "the client does not come to wave $wave"
	before=$(fenced) wanted=$(wc -l <"$sessions")
	coproc WITNESS { exec "$BUILD/tests/rig/witness" "$SERVER_PID" 10.8.0.1 7460 10.8.0.2; }
	exec {witness_in}>&"${WITNESS[1]}" {witness_out}<&"${WITNESS[0]}"
	witness_pid=$WITNESS_PID
	{
		cat "$sessions"
		echo watch
	} >&"$witness_in"
	read -r line <&"$witness_out" && [ "$line" = watching ] || fail "witness: $line"
	rig-mark watched."$wave"
	rig-await silent."$wave" 60 || fail "the client does not fall silent"
	server_deaf "$sessions"
	for ((tries = 0; $(fenced) < before + wanted; tries++)); do
		[ "$tries" -lt 300 ] || broken "a silent client is not fenced"
		sleep 0.1
	done
	echo fenced >&"$witness_in"
	read -r line <&"$witness_out" && [ "$line" = noted ] || fail "witness: $line"
	server_hears "$sessions"
	rig-mark fenced."$wave"
	# the client's machine may be gone
	[[ ${waves[wave]} == p* ]] || rig-await speaking."$wave" 60 || fail "the client is gone"
	sleep 1
	eval "exec ${WITNESS[1]}>&- $witness_in>&-"
	cat <&"$witness_out" >/tmp/seen
	wait "$witness_pid" || fail "witness: status $?"
	eval "exec $witness_out<&-"
	rig-mark witnessed."$wave"
}

# Whether the round says nothing: the machine stood still, or the device had lost the writer's
# packets.
doubtful()
{
	if [ "$last" -gt "$fence_ms" ] && [ "$still" -gt "$still_ms" ]; then
		echo "$kind: the machine stood still for $still ms: again"
	elif [ "$last" -lt 500 ] && [[ $kind =~ ^(control-cut|keeper-stop)$ ]]; then
		echo "$kind: the writer did not write on: again"
	else
		return 1
	fi
}

# The sessions of the last wave.
wave_check()
{
	local kind last still seen
	while read -r kind last still seen; do
		echo "$kind: last access $last ms after the last sign of life," \
			"longest look $still ms, $seen values"
		[ "$last" -le "$fence_ms" ] || grep session-fenced /tmp/rmemd.log | tail -n 5
		[ "$seen" -ge 10 ] || broken "$kind: the client has hardly written"
		if doubtful; then
			((repeats--)) || broken "too often: the host is too busy"
			waves+=("$kind")
			continue
		fi
		[ "$last" -le "$fence_ms" ] || late=$((late + 1))
		echo "$last" >>"/tmp/silence.$kind"
	done </tmp/seen
}

for ((wave = 0; wave < ${#waves[@]}; wave++)); do
	wave_watch "$wave"
	wave_check
done
echo >"$kinds_of$wave"
rig-mark go."$wave"
printf '%-14s %6s %10s %10s\n' silence rounds median/ms worst/ms
for file in /tmp/silence.*; do
	sort -n "$file" | awk -v kind="${file#*silence.}" '{ at[NR] = $1 } END {
		printf "%-14s %6d %10d %10d\n", kind, NR, at[int((NR + 1) / 2)], at[NR] }'
done
admin --json status | jq -c .turns
[ "$late" -eq 0 ] || broken "$late accesses later than $fence_ms ms after the last sign of life"
server_stop
tc qdisc del dev eth0 clsact
