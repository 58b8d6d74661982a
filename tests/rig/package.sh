#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The life of the Debian packages: they are installed, the service runs in its sandbox, the tests of
# debian/tests pass, an upgrade loses no lease and no client notices, removed and purged packages
# leave nothing behind.
#   RMEM_PACKAGES  folder of the packages, default build/package; made by ./dev package if it is
#                  empty
#   RMEM_RIG_LEGS  on which kernel:device pairs, default 612:rxe
# cores: 1  seconds: 400
set -u
: "${top_srcdir:?}" "${top_builddir:?}"
export RMEM_PACKAGES=${RMEM_PACKAGES:-$top_builddir/package}
# the build is not installed, but the packages
export RMEM_RIG_ROOT=/nonexistent
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage
[ -n "$(compgen -G "$RMEM_PACKAGES/*.deb")" ] || "$top_srcdir/dev" package || exit 1

# packages of a later version in $WORK/newer, with a configuration that has changed
newer=0.1.1-1
mkdir "$WORK/newer"
for package in "$RMEM_PACKAGES"/*.deb; do
	[[ $package != *-dbgsym_* ]] || continue
	tree=$WORK/tree
	rm -rf "$tree"
	dpkg-deb -R "$package" "$tree" || exit 1
	# also in the dependencies on the same version
	sed -i "s/$(dpkg-deb -f "$package" Version)/$newer/g" "$tree/DEBIAN/control"
	[ ! -f "$tree/etc/rmem/rmemd.conf" ] ||
		echo "# as of version $newer" >>"$tree/etc/rmem/rmemd.conf"
	package=${package##*/}
	dpkg-deb --root-owner-group -b -Znone "$tree" "$WORK/newer/${package%%_*}.deb" >/dev/null ||
		exit 1
done

cat >"$WORK/rmemd.conf" <<'CONF'
[server]
listen = 10.9.0.1
insecure = yes
[rdma]
enabled = auto
[pool here]
size = 128M
page_size = 2M
CONF

echo "newer=$newer" >"$WORK/cmd.sh"
cat >>"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
PACKAGES=(librmem0 librmem-cache0 librmem-dev python3-rmem rmem rmemd rmem-doc)
export DEBIAN_FRONTEND=noninteractive
# images of containers forbid to start services
rm -f /usr/sbin/policy-rc.d
# the index of manual pages takes long, and is not looked at
ln -sf /bin/true /usr/bin/mandb
: >/var/log/dpkg.log
free=/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages
echo 70 >/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
[ "$(cat $free)" = 70 ] || fail "no huge pages"

# traces: files where programs and packages leave something.  /tmp is that of the host, with its
# tests, and perhaps a whole tree.
traces()
{
	{
	find /etc /run /dev/shm /var -xdev \( -path '/var/log/journal' -o -path '/run/log' \
		-o -path '/run/systemd' -o -path '/run/udev' -o -path '/var/cache' \
		-o -path '/var/lib/apt' -o -path '/var/tmp' \) -prune -o -print
	find /run /dev/shm -xdev -user rmem
	find /tmp /var/tmp -maxdepth 3 -xdev -user rmem
	} 2>/dev/null | sort -u
}

# install FOLDER OPTION...
install_from()
{
	local files=()
	for package in "${PACKAGES[@]}"; do
		files+=("$1/$package"[_.]*deb)
	done
	dpkg --force-unsafe-io "${@:2}" -i "${files[@]}" >/tmp/dpkg.out 2>&1 || {
		cat /tmp/dpkg.out
		journalctl -u rmemd --no-pager -n 20
		fail "dpkg"
	}
}

show()
{
	systemctl show -p "$1" --value "${2:-rmemd.service}"
}

state()
{
	[ "$(show ActiveState "$1")" = "$2" ] || {
		systemctl status --no-pager -l rmemd.socket rmemd.service >&2
		fail "$1 is not $2"
	}
}

echo "-- installed"
traces >/tmp/before
install_from "$RMEM_PACKAGES"
state rmemd.service active
state rmemd.socket active
systemctl is-enabled rmemd.service rmemd.socket || fail "not enabled"
[ "$(ps -o user= -p "$(show MainPID)")" = rmem ] || fail "the service is not the user rmem"
rmemctl pools || fail pools

echo "-- the units"
systemd-analyze verify rmemd.service rmemd.socket >/tmp/verify 2>&1 ||
	fail "verify: $(cat /tmp/verify)"
! grep -E 'rmemd\.(service|socket)' /tmp/verify || fail "systemd-analyze verify has complaints"
systemd-analyze security --no-pager --threshold=15 rmemd.service >/tmp/security 2>&1 ||
	fail "$(cat /tmp/security)"
grep 'Overall exposure' /tmp/security || fail "no exposure"

for name in roundtrip program python service; do
	mkdir "/tmp/$name"
	AUTOPKGTEST_TMP=/tmp/$name "$top_srcdir/debian/tests/$name" >/tmp/out 2>&1 || {
		cat /tmp/out
		fail "debian/tests/$name"
	}
	rm -r "/tmp/$name"
	echo "ok: debian/tests/$name"
done

echo "-- with the administrator's configuration"
cp "$WORK/rmemd.conf" /etc/rmem/rmemd.conf
mkdir -p /etc/systemd/system/rmemd.socket.d
printf '[Socket]\nListenStream=10.9.0.1:7460\n' >/etc/systemd/system/rmemd.socket.d/address.conf
systemctl daemon-reload
systemctl stop rmemd.socket rmemd.service || fail stop
systemctl start rmemd.service || fail start
[ "$(cat $free)" -lt 7 ] || fail "the pool is not on huge pages"

declare -A load_pid to_load from_load

# load_start FABRIC: a client that works over the fabric
load_start()
{
	mkfifo "/tmp/to-$1" "/tmp/from-$1"
	"$BUILD/tests/fault/load" "rmem://10.9.0.1?fabric=$1" "$RMEM_SEED" 60000 \
		<"/tmp/to-$1" >"/tmp/from-$1" 2>"/tmp/load-$1" &
	load_pid[$1]=$!
	exec {to}>"/tmp/to-$1" {from}<"/tmp/from-$1"
	to_load[$1]=$to from_load[$1]=$from
	rm "/tmp/to-$1" "/tmp/from-$1"
}

# load FABRIC COMMAND...: its answer is in `answer`
load()
{
	echo "${*:2}" >&"${to_load[$1]}" || load_failed "$1"
	read -r -t 600 -u "${from_load[$1]}" ok word answer && [ "$ok $word" = "ok $2" ] ||
		load_failed "$1"
}

load_failed()
{
	cat "/tmp/load-$1"
	journalctl -u rmemd --no-pager -n 60 -o short-monotonic
	fail "the client over $1"
}

echo "-- upgraded, with clients at work"
head -c 3000000 /dev/urandom >/tmp/in
rmem --server 10.9.0.1 --quiet put kept /tmp/in || fail put
for fabric in rdma tcp; do
	load_start $fabric
	load $fabric fill
	# else the package manager would get no time
	load $fabric pace 50
	load $fabric run 300
	load $fabric gap
done
pid=$(show MainPID)
socket=$(show ActiveEnterTimestampMonotonic rmemd.socket)
install_from "$WORK/newer" --force-confdef --force-confold
[ "$(dpkg-query -W -f '${Version}' rmemd)" = "$newer" ] || fail "another version"
for fabric in rdma tcp; do
	load $fabric run 300
	load $fabric gap
	echo "ok: over $fabric $answer ms without a completed operation"
	load $fabric check
	to=${to_load[$fabric]}
	exec {to}>&-
done
# the later client inherited the pipe of the other
for fabric in rdma tcp; do
	wait "${load_pid[$fabric]}" || load_failed $fabric
done
[ "$(show MainPID)" != "$pid" ] || fail "the upgrade has not restarted the daemon"
[ "$(show ActiveEnterTimestampMonotonic rmemd.socket)" = "$socket" ] ||
	fail "the upgrade has closed the socket"
cmp "$WORK/rmemd.conf" /etc/rmem/rmemd.conf || fail "the upgrade has changed the configuration"
journalctl --sync
journalctl -u rmemd --no-pager -o cat "_PID=$(show MainPID)" | grep -E '^restored: 2 sessions' ||
	fail "the sessions were not restored"
rmem --server 10.9.0.1 --quiet get kept /tmp/out || fail get
cmp /tmp/in /tmp/out || fail "the upgrade has changed what is stored"

# wait_for SECONDS COMMAND...
wait_for()
{
	local i
	for ((i = 0; i < $1 * 10; i++)); do
		! "${@:2}" || return 0
		sleep 0.1
	done
	return 1
}

stopped()
{
	[ "$(show ActiveState rmemd.service)" = inactive ] &&
		[ "$(show ActiveState rmemd.socket)" = inactive ]
}

echo "-- drained"
rmemctl drain || fail drain
sleep 1
state rmemd.service active
! rmem --server 10.9.0.1 ls >/tmp/out 2>&1 || fail "a session while it drains: $(cat /tmp/out)"
rmemctl revoke kept || fail revoke
# the service would start again after any other exit, and the socket would start it for a client
wait_for 60 stopped || { state rmemd.service inactive; state rmemd.socket inactive; }
! rmem --server 10.9.0.1 ls >/tmp/out 2>&1 || fail "a drained daemon serves: $(cat /tmp/out)"
sleep 1
stopped || fail "a client starts a drained daemon"
[ "$(show Result) $(show NRestarts)" = "success 0" ] || fail "$(show Result) $(show NRestarts)"
[ "$(cat $free)" = 70 ] || fail "$(cat $free) of 70 huge pages are free of a drained daemon"
systemctl start rmemd.service || fail "start after a drain"
state rmemd.socket active
rmem --server 10.9.0.1 --quiet put kept /tmp/in || fail "put after a drain"

echo "-- removed"
dpkg -L "${PACKAGES[@]}" | sort -u | while read -r file; do
	[ -d "$file" ] || echo "$file"
done >/tmp/files
[ -s /tmp/files ] || fail "no files"
dpkg --force-unsafe-io -r "${PACKAGES[@]}" >/tmp/dpkg.out 2>&1 || fail "$(cat /tmp/dpkg.out)"
for unit in rmemd.service rmemd.socket; do
	[ "$(show LoadState $unit) $(show ActiveState $unit)" = "masked inactive" ] ||
		[ "$(show ActiveState $unit)" = inactive ] ||
		fail "$unit is $(show ActiveState $unit)"
done
! ss -Hltn | grep -E ':746[012] ' || fail "a port is still open"
[ "$(cat $free)" = 70 ] || fail "$(cat $free) of 70 huge pages are free"
[ ! -e /sys/fs/cgroup/system.slice/rmemd.service ] || fail "its cgroup is left behind"
[ ! -e /run/rmemd ] || fail "/run/rmemd is left behind"
! pgrep -a -u rmem || fail "a process is left behind"
cmp "$WORK/rmemd.conf" /etc/rmem/rmemd.conf || fail "removed packages lose the configuration"

echo "-- purged"
rm -r /etc/systemd/system/rmemd.socket.d
# the others have no configuration, so dpkg knows nothing of them any more
dpkg --force-unsafe-io -P rmemd >/tmp/dpkg.out 2>&1 || fail "$(cat /tmp/dpkg.out)"
! grep -i warning /tmp/dpkg.out || fail "dpkg warns"
while read -r file; do
	[ ! -e "$file" ] && [ ! -L "$file" ] || fail "$file is left behind"
done </tmp/files
rm -f /tmp/{files,in,out,load-rdma,load-tcp,verify,security,dpkg.out}
traces >/tmp/after
kept='/etc/(passwd|group|shadow|gshadow|subuid|subgid)-|/var/lib/dpkg(/.*)?'
kept+='|/var/lib/systemd/(linger|timers|random-seed)(/.*)?'
comm -13 /tmp/before /tmp/after | grep -vE "^($kept)$" >/tmp/traces
[ ! -s /tmp/traces ] || fail "left behind: $(cat /tmp/traces)"
! grep -rl rmem /var/lib/dpkg/status /var/lib/dpkg/triggers \
	/var/lib/systemd/deb-systemd-helper-* 2>/dev/null ||
	fail "the package manager knows rmem"
systemctl daemon-reload
! systemctl list-units --all --no-legend 'rmemd*' | grep . || fail "the service manager knows rmemd"
# The user stays, so that nobody else gets its number; nobody can log in as it.
[[ $(getent shadow rmem) == rmem:'!'* ]] ||
	fail "the user rmem is not locked: $(getent shadow rmem)"
kernel_clean
CMD

for leg in $(legs 612:rxe); do
	machine "$leg" run --systemd --node-memory 2048 --timeout "${RMEM_RIG_SECONDS:-1500}" \
		"bash $WORK/cmd.sh $WORK"
done
