# shellcheck shell=bash disable=SC2015,SC2154
# SPDX-License-Identifier: BSD-3-Clause
# The client of two machines; see silence-server.sh.  It may be a machine that lives again after
# a power-off: then it goes on with the next wave.
# shellcheck source=tests/rig/parts/silence-waves.sh
: "${top_srcdir:?}"
. "$top_srcdir/tests/rig/parts/silence-waves.sh"
next=/rig/peer/silence.next
keys_take
rig-await serving

# stubborn_start N: start a client for the kind N, and wait until it writes
stubborn_start()
{
	local word
	: >"/tmp/ready.$1"
	"$BUILD/tests/rig/stubborn" 10.8.0.1 7460 "${marks[$1]}" >"/tmp/ready.$1" \
		2>"/tmp/stubborn.$1" &
	keepers[$1]=$!
	until read -r word _ "writers[$1]" "ports[$1]" <"/tmp/ready.$1" && [ "$word" = ready ]; do
		kill -0 "${keepers[$1]}" 2>/dev/null || return 1
		sleep 0.05
	done
}

# sessions_start WAVE: start a client for each kind of the wave, and tell the server.  On a busy
# host a handshake may take longer than the server waits for it.
sessions_start()
{
	local i
	keepers=() writers=() marks=() ports=()
	for i in "${!kinds[@]}"; do
		marks[i]=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
		stubborn_start "$i" || stubborn_start "$i" || stubborn_start "$i" ||
			fail "stubborn: $(cat "/tmp/stubborn.$i")"
		echo "${kinds[i]} ${marks[i]} ${ports[i]}"
	done >"$sessions_of$1"
}

# fall_silent N: of the session
fall_silent()
{
	local keeper=${keepers[$1]} writer=${writers[$1]}
	case ${kinds[$1]} in
	control-cut) drop u32 match ip protocol 6 0xff match ip sport 7460 0xffff \
		match ip dport "${ports[$1]}" 0xffff ;;
	stop) kill -STOP "$keeper" "$writer" ;;
	keeper-stop) kill -STOP "$keeper" ;;
	kill) kill -KILL "$keeper" "$writer" ;;
	keeper-kill) kill -KILL "$keeper" ;;
	cut | cut-to-client) drop matchall ;;
	cut-to-server) ;;
	power-off) printf '\1' | dd of=/dev/port bs=1 seek=244 2>/dev/null ;;
	panic) echo c >/proc/sysrq-trigger ;;
	esac
}

speak_again()
{
	local i dropping=
	for i in "${!kinds[@]}"; do
		case ${kinds[i]} in
		stop) kill -CONT "${keepers[i]}" "${writers[i]}" ;;
		keeper-stop) kill -CONT "${keepers[i]}" ;;
		control-cut | cut | cut-to-client) dropping=1 ;;
		esac
	done
	[ -z "$dropping" ] || drop_end
}

wave_run()
{
	local i
	rig-await watched."$1" 60 || fail "the server does not watch wave $1"
	sleep 0.6
	rig-mark silent."$1"
	for i in "${!kinds[@]}"; do
		fall_silent "$i"
	done
	rig-await fenced."$1" 60 || fail "the server does not fence wave $1"
	speak_again
	rig-mark speaking."$1"
	rig-await witnessed."$1" 60 || fail "the server does not end wave $1"
	kill -KILL "${keepers[@]}" "${writers[@]}" 2>/dev/null
	wait "${keepers[@]}" 2>/dev/null
	# what stopped the writers
	for i in "${!kinds[@]}"; do
		sed "s/^stubborn/${kinds[i]}/" "/tmp/stubborn.$i" | sort | uniq -c | head -n 4
	done
}

[ -s "$next" ] || echo 0 >"$next"
for ((wave = $(cat "$next"); ; wave++)); do
	echo $((wave + 1)) >"$next"
	rig-await go."$wave" 60 || fail "the server does not begin wave $wave"
	read -ra kinds <"$kinds_of$wave"
	[ ${#kinds[@]} -gt 0 ] || break
	sessions_start "$wave"
	rig-mark begin."$wave"
	wave_run "$wave"
done
tc qdisc del dev eth0 clsact
