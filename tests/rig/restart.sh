#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A restart loses nothing, under systemd: a program writes a pattern over memory of two NUMA
# nodes, and goes on reading and writing with every byte checked, while the service is killed
# at random moments, restarted, and stopped until the watchdog ends it.  How long it had to
# wait each time is printed.
#   RMEM_ROUNDS    kills, default 4; of the others a quarter
#   RMEM_MIB       how much it writes, default 128
#   RMEM_PAGES     of the pools on the two nodes, default "2M base"
#   RMEM_FABRICS   default "rdma tcp"
#   RMEM_RIG_LEGS  on which kernel:device pairs, default 612:rxe
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage
rounds=${RMEM_ROUNDS:-4}
mib=${RMEM_MIB:-128}
read -r near far <<<"${RMEM_PAGES:-2M base}"

cat >"$WORK/rmemd.conf" <<CONF
[server]
listen = 10.9.0.1
insecure = yes
[rdma]
enabled = auto
[pool near]
size = $((mib * 5 / 8))M
node = 0
page_size = $near
[pool far]
size = $((mib * 5 / 8))M
node = 1
page_size = $far
CONF

cat >"$WORK/cmd.sh" <<CMD
export rounds=$rounds huge=$((mib * 5 / 16 + 1)) pages="$near $far" cells=$((mib * 16)) fabrics="${RMEM_FABRICS:-rdma tcp}" seed=${RMEM_SOAK_SEED:-$RANDOM}
CMD
cat >>"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
cp -a "$WORK/root/." / || fail "cannot install"
ldconfig
mkdir -p /etc/rmem /etc/systemd/system/rmemd.socket.d
cp "$WORK/rmemd.conf" /etc/rmem/
node=0
for page in $pages; do
	[ "$page" != 2M ] || echo "$huge" >/sys/devices/system/node/node$node/hugepages/hugepages-2048kB/nr_hugepages
	node=$((node + 1))
done
printf '[Socket]\nListenStream=10.9.0.1:7460\n' >/etc/systemd/system/rmemd.socket.d/address.conf
systemd-sysusers
systemctl daemon-reload
systemctl start rmemd || { journalctl -u rmemd --no-pager -n 20; fail "start"; }

show()
{
	systemctl show -p "$1" --value rmemd.service
}

load()
{
	echo "$*" >&"${LOAD[1]}" || load_failed
	read -r -t 200 -u "${LOAD[0]}" ok word answer && [ "$ok $word" = "ok $1" ] || load_failed
}

load_failed()
{
	cat /tmp/load.err
	journalctl -u rmemd --no-pager -n 60 -o short-monotonic
	fail "load"
}

# outage NAME: since the last time
outage()
{
	load run 300
	load gap
	echo "ok: $1: $answer ms without an answer"
	gaps="$gaps $answer"
}

# how often the service had to be started anew, and that nobody lost anything by it
restored()
{
	journalctl --sync
	journalctl -u rmemd --no-pager -o cat "_PID=$(show MainPID)" | grep -E '^restored: 1 sessions' || {
		journalctl -u rmemd --no-pager -n 40
		fail "nothing was restored"
	}
}

kill_one()
{
	sleep "0.$((RANDOM % 900 + 100))"
	kill -KILL "$(show MainPID)" || fail "no rmemd"
	outage "kill $round"
}

restart_one()
{
	sleep "0.$((RANDOM % 900 + 100))"
	systemctl restart rmemd || fail "restart"
	outage "restart $round"
}

watchdog_one()
{
	kill -STOP "$(show MainPID)" || fail "no rmemd"
	outage "watchdog $round"
}

for fabric in $fabrics; do
	echo "-- over $fabric"
	coproc LOAD { exec "$BUILD/tests/fault/load" "rmem://10.9.0.1?fabric=$fabric" "$seed" 60000 65536 "$cells" 2>/tmp/load.err; }
	load fill
	rmemctl pools
	for what in kill restart watchdog; do
		many=$(((rounds + 3) / 4)) gaps=
		[ "$what" != kill ] || many=$rounds
		load run 300
		load gap
		for ((round = 1; round <= many; round++)); do
			"${what}_one"
		done
		restored
		echo "outages over $fabric by $what, ms:$gaps"
		load check
	done
	exec {LOAD[1]}>&-
	wait "$LOAD_PID" || load_failed
done

echo "-- from the service manager to a directory"
head -c 3000000 /dev/urandom >/tmp/in
export RMEM_SERVER=10.9.0.1
rmem put kept /tmp/in || fail "put"
install -d -m 700 -o rmem -g rmem /dev/shm/rmem
sed 's|^insecure = yes$|&\nstate = /dev/shm/rmem|; s/= 2M$/= base/' "$WORK/rmemd.conf" >/tmp/state.conf
cp /tmp/state.conf /etc/rmem/rmemd.conf
! systemctl restart rmemd || fail "what is lent is given up"
journalctl --sync
journalctl -u rmemd --no-pager -o cat -p err | grep "manager keeps what was lent before: systemctl stop" || fail "it does not say why"
cp "$WORK/rmemd.conf" /etc/rmem/
for ((i = 0; i < 100; i++)); do
	! systemctl -q is-active rmemd || break
	sleep 0.2
done
rmem get kept /tmp/out && cmp /tmp/in /tmp/out || fail "it is lost"
rmem rm kept || fail "rm"
cp /tmp/state.conf /etc/rmem/rmemd.conf
# nothing is lent any more
systemctl restart rmemd || fail "restart"
[ "$(show NFileDescriptorStore)" = 0 ] || fail "the memory is not given back"
rmem put kept /tmp/in || fail "put"
systemctl stop rmemd || fail "stop"
rmem get kept /tmp/out && cmp /tmp/in /tmp/out || fail "it is lost"

systemctl stop rmemd.socket rmemd || fail "stop"
[ "$(show NFileDescriptorStore)" = 0 ] || fail "the memory is not given back"
kernel_clean
CMD

for leg in $(legs 612:rxe); do
	echo "== kernel ${leg%:*}, ${leg#*:}"
	"$RIG" run --systemd --kernel "${leg%:*}" --device "${leg#*:}" --numa 2 \
		--node-memory "$((1024 + 2 * mib)),$((1024 + 2 * mib))" --timeout 1500 "bash $WORK/cmd.sh $WORK" || {
		echo "FAILED on $leg: $?"
		exit 1
	}
done
