#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A restart under systemd loses nothing.  A program reads and writes memory of two NUMA nodes and
# checks every byte, while the service is killed at random moments, is restarted, and is stopped
# until the watchdog kills it; each outage is printed.  Then a directory on hugetlbfs and one on
# tmpfs keep the memory instead of the service manager.  No huge page is allocated twice, and at the
# end all of them are free.
#   RMEM_ROUNDS    number of kills, default 2; a quarter of it of restarts and watchdog time-outs
#   RMEM_MIB       size of the memory in MiB, default 64
#   RMEM_PAGES     pages of the pools on the two nodes, default "2M base"
#   RMEM_FABRICS   default "rdma tcp"
#   RMEM_RIG_LEGS  on which kernel:device pairs, default 612:rxe
# cores: 1  seconds: 180
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage
rounds=${RMEM_ROUNDS:-2}
mib=${RMEM_MIB:-64}
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
export rounds=$rounds pool=$((mib * 5 / 16)) pages="$near $far" cells=$((mib * 16))
export fabrics="${RMEM_FABRICS:-rdma tcp}"
CMD
cat >>"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
RANDOM=$RMEM_SEED
cp -a "$WORK/root/." / || fail "cannot install"
mkdir -p /etc/rmem /etc/systemd/system/rmemd.socket.d
cp "$WORK/rmemd.conf" /etc/rmem/
# huge PAGES NODE: reserve the huge pages of one pool on the node, and a few for the ledger
huge()
{
	[ "$1" != 2M ] || echo $((pool + 3)) \
		>"/sys/devices/system/node/node$2/hugepages/hugepages-2048kB/nr_hugepages"
}
node=0
for page in $pages; do
	huge "$page" "$node"
	node=$((node + 1))
done
printf '[Socket]\nListenStream=10.9.0.1:7460\n' >/etc/systemd/system/rmemd.socket.d/address.conf
systemd-sysusers
systemctl daemon-reload
free=/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages
all=$(cat $free)
systemctl start rmemd || { journalctl -u rmemd --no-pager -n 20; fail "start"; }
rest=$(cat $free)

free_is()
{
	[ "$(cat $free)" = "$1" ]
}

# pages_free N WHEN: wait until N pages of 2 MiB are free; the service manager frees some later
pages_free()
{
	! await 5 free_is "$1" || return 0
	rmemctl pools
	fail "$2: $(cat $free) of $all huge pages are free, not $1"
}

show()
{
	systemctl show -p "$1" --value rmemd.service
}

load()
{
	echo "$*" >&"${LOAD[1]}" || load_failed
	read -r -t 600 -u "${LOAD[0]}" ok word answer && [ "$ok $word" = "ok $1" ] || load_failed
}

load_failed()
{
	cat /tmp/load.err
	journalctl -u rmemd --no-pager -n 60 -o short-monotonic
	fail "load"
}

# outage NAME: wait for operations, and print the longest time without a success since the last call
outage()
{
	load run 300
	load gap
	pages_free "$rest" "$1"
	echo "ok: $1: $answer ms without a completed operation"
	gaps="$gaps $answer"
}

# the log of the running daemon says that it restored the session
restored()
{
	journalctl --sync
	journalctl -u rmemd --no-pager -o cat "_PID=$(show MainPID)" |
		grep -E '^restored: 1 sessions' || {
		journalctl -u rmemd --no-pager -n 40
		fail "no session was restored"
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
	coproc LOAD {
		exec "$BUILD/tests/fault/load" "rmem://10.9.0.1?fabric=$fabric" "$RMEM_SEED" \
			60000 65536 "$cells" 2>/tmp/load.err
	}
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

echo "-- stopped: the service manager keeps nothing"
systemctl stop rmemd.socket rmemd || fail "stop"
[ "$(show NFileDescriptorStore)" = 0 ] || fail "the service manager keeps memory"
pages_free "$all" stop
systemctl start rmemd || fail "start"

# directory DIR PAGE_SIZE: make DIR, and /tmp/state.conf with state = DIR
directory()
{
	install -d -m 700 -o rmem -g rmem "$1"
	sed "s|^insecure = yes$|&\nstate = $1|; s/^page_size = .*/page_size = $2/" \
		"$WORK/rmemd.conf" >/tmp/state.conf
}

# stored WHEN: the lease has its bytes, and no more huge pages are in use
stored()
{
	rmem get kept /tmp/out && cmp /tmp/in /tmp/out || fail "the lease is lost"
	pages_free "$rest" "$1"
}

echo "-- from the service manager to a directory on hugetlbfs"
head -c 3000000 /dev/urandom >/tmp/in
export RMEM_SERVER=10.9.0.1
rmem put kept /tmp/in || fail "put"
mountpoint -q /dev/hugepages ||
	{ mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages; } ||
	fail "mount"
for node in 0 1; do
	huge 2M $node
done
all=$((2 * (pool + 3)))
directory /dev/hugepages/rmem 2M
cp /tmp/state.conf /etc/rmem/rmemd.conf
! systemctl restart rmemd || fail "rmemd starts without the leases"
journalctl --sync
journalctl -u rmemd --no-pager -o cat -p err |
	grep "manager keeps what was lent before: systemctl stop" ||
	fail "the error does not name the cause"
cp "$WORK/rmemd.conf" /etc/rmem/
for ((i = 0; i < 100; i++)); do
	! systemctl -q is-active rmemd || break
	sleep 0.2
done
rmem get kept /tmp/out && cmp /tmp/in /tmp/out || fail "the lease is lost"
rmem rm kept || fail rm
cp /tmp/state.conf /etc/rmem/rmemd.conf
# no memory is lent any more, so the service manager frees it before the start
systemctl restart rmemd || { journalctl -u rmemd --no-pager -n 20; fail "restart"; }
[ "$(show NFileDescriptorStore)" = 0 ] || fail "the service manager keeps memory"
rmemctl --json pools | jq -e '[.pools[].pages == "2M"] | all' >/dev/null || fail "$(rmemctl pools)"
rest=$(cat $free)
# two pools and the ledger are in use
[ "$rest" -lt $((all - 2 * pool)) ] || fail "$rest of $all pages are free"
rmem put kept /tmp/in || fail "put"
systemctl stop rmemd || fail "stop"
pages_free "$rest" "stop with a directory"
stored start
kill -KILL "$(show MainPID)" || fail "no rmemd"
stored kill
rmem rm kept || fail rm

echo "-- to a directory on tmpfs"
directory /dev/shm/rmem base
cp /tmp/state.conf /etc/rmem/rmemd.conf
systemctl restart rmemd || fail "restart"
pages_free "$rest" "another directory"
rm -r /dev/hugepages/rmem
pages_free "$all" "no directory"
rest=$all
rmem put kept /tmp/in || fail "put"
systemctl stop rmemd || fail "stop"
stored start

systemctl stop rmemd.socket rmemd || fail "stop"
[ "$(show NFileDescriptorStore)" = 0 ] || fail "the service manager keeps memory"
kernel_clean
CMD

for leg in $(legs 612:rxe); do
	machine "$leg" run --systemd --numa 2 \
		--node-memory "$((1024 + 2 * mib)),$((1024 + 2 * mib))" \
		--timeout "${RMEM_RIG_SECONDS:-1500}" "bash $WORK/cmd.sh $WORK"
done
