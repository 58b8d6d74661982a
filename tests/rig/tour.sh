#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs the commands of README.md with its configuration under systemd, then checks what rmemd(8)
# says of the service: reload, a wrong configuration, stop.
# cores: 1  seconds: 110
set -u
: "${top_srcdir:?}"
# shellcheck source=tests/rig/lib/stage.sh
. "$top_srcdir/tests/rig/lib/stage.sh"
stage

# readme_block PATTERN: the indented block of README.md whose first line matches PATTERN
readme_block()
{
	awk -v first="^    $1" '$0 ~ first { on = 1 } on && /^[^ ]/ { exit } on' \
		"$top_srcdir/README.md" | sed 's/^    //'
}
readme_block '[[]server[]]' >"$WORK/rmemd.conf"
readme_block 'mkdir -p /etc/systemd/' >"$WORK/server-commands"
readme_block 'export RMEM_SERVER=' >"$WORK/client-commands"
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$top_srcdir/README.md" >"$WORK/hello.c"
# shellcheck disable=SC2016 # no command, but README.md's quotes
sed -n 's/.*`\(cc hello.c [^`]*\)`.*/\1/p' "$top_srcdir/README.md" >"$WORK/compile-command"
# shellcheck disable=SC2016 # no command, but README.md's quotes
sed -n 's/.*`\(systemctl stop [^`]*\)`.*/\1/p' "$top_srcdir/README.md" >"$WORK/stop-command"
for part in rmemd.conf server-commands client-commands hello.c compile-command stop-command; do
	[ -s "$WORK/$part" ] || { echo "README.md has no $part"; exit 1; }
done

cat >"$WORK/cmd.sh" <<'CMD'
. "$1/guest.sh"
cp -a "$WORK/root/." / || fail "cannot install"
# the address of the example, but less memory than its 64 GiB
ip addr add 192.0.2.10/24 dev dummy0 || fail "no address"
sed 's/^size = 64G$/size = 256M/' "$WORK/rmemd.conf" >/etc/rmem/rmemd.conf
conf=/etc/rmem/rmemd.conf

show()
{
	systemctl show -p "$1" --value "${2:-rmemd.service}"
}

# state UNIT WANTED
state()
{
	[ "$(show ActiveState "$1")" = "$2" ] || {
		systemctl status --no-pager -l rmemd.socket rmemd.service >&2
		fail "$1 is not $2"
	}
}

# logged OPTION-OF-JOURNALCTL... PATTERN: a line of rmemd in the journal matches PATTERN
logged()
{
	local pattern=${!#}
	journalctl --sync
	journalctl -u rmemd --no-pager -o cat "${@:1:$#-1}" | grep -E -- "$pattern" || {
		journalctl -u rmemd --no-pager -o verbose -n 40 >&2
		fail "the journal has no line '$pattern' with ${*:1:$#-1}"
	}
}

echo "-- the memory server"
set -e
trap 'cat /tmp/server-output; journalctl -u rmemd --no-pager -n 20' ERR
. "$WORK/server-commands" >/tmp/server-output
trap - ERR
set +e
cat /tmp/server-output
state rmemd.service active
state rmemd.socket active
ss -Hltnp 'sport = :7460' >/tmp/sockets
for address in 192.0.2.10 127.0.0.1; do
	grep -F "$address:7460 " /tmp/sockets | grep -F '"systemd",pid=1,' | grep -qF '"rmemd"' || {
		cat /tmp/sockets >&2
		fail "$address:7460 is not a socket of rmemd.socket that rmemd uses"
	}
	grep -qE "^control .*$address:7460" /tmp/server-output ||
		fail "the status does not show $address"
done
grep -qE '^node0 .*256' /tmp/server-output || fail "no pool"
rdma resource show cm_id | grep LISTEN >/tmp/listening
if ! grep -qF 'src-addr 192.0.2.10:7461 ' /tmp/listening ||
	grep -vF 192.0.2.10: /tmp/listening; then
	fail "RDMA listens on other addresses than [server] listen: $(cat /tmp/listening)"
fi

echo "-- a client"
mkdir -p /tmp/here/src /tmp/there
head -c 3000000 /dev/urandom >/tmp/here/src/file
(cd /tmp/here && bash -e -o pipefail "$WORK/client-commands") || fail "the client's commands"
# get the file in another directory, which does not have it
(cd /tmp/there && RMEM_SERVER=192.0.2.10 rmem get src.tar | tar x) || fail "get"
cmp /tmp/here/src/file /tmp/there/src/file || fail "other bytes came back"

echo "-- a program"
cp "$WORK/hello.c" /tmp/here
cd /tmp/here || fail "cd"
bash -e "$WORK/compile-command" || fail "hello.c does not compile"
./a.out | tee /tmp/printed
[ "$(cat /tmp/printed)" = hello ] || fail "hello.c does not print hello"

echo "-- reload"
pid=$(show MainPID)
cat >>$conf <<-END
	[log]
	level = warning
	[tcp]
	threads = 3
END
sed -i 's/^listen = .*/&\nport = 7470/' $conf
systemctl reload rmemd || fail "reload"
logged -p warning 'reloaded.*restart.*\[server\] port.*\[tcp\] threads'
[ "$(show MainPID)" = "$pid" ] || fail "reload has restarted the daemon"
echo '[nothing]' >>$conf
! systemctl reload rmemd || fail "the reload of a broken file succeeds"
logged 'reload-failed.*nothing'
sed -i '$d' $conf
[ "$(show MainPID)" = "$pid" ] || fail "a failed reload has restarted the daemon"
systemctl restart rmemd || fail "restart"
# the port is that of the socket unit, not that of the configuration
rmemctl status | grep -E '^control .*192.0.2.10:7460' || fail "the status shows another port"

[ -n "$(RMEM_SERVER=192.0.2.10 rmem ls)" ] || fail "a restart loses the leases"

echo "-- who may look and act"
member()
{
	setpriv --reuid=nobody --regid=nogroup --groups=rmem -- "$@"
}
member rmemctl status | grep -E '^control .*192.0.2.10:7460' || fail "a member of rmem may not look"
! member rmemctl revoke 1 2>/tmp/refused || fail "a member of rmem may act"
grep -E 'answers 403: user [0-9]+ may not act' /tmp/refused || fail "$(cat /tmp/refused)"
! setpriv --reuid=nobody --regid=nogroup --clear-groups rmemctl status 2>/tmp/refused ||
	fail "any user may look"
printf '[admin]\nact_group = rmem\n' >>$conf
systemctl restart rmemd || fail "restart"
! member rmemctl revoke 1 2>/tmp/refused || fail "a lease is revoked that is none"
grep 'answers 404: there is no lease 1' /tmp/refused || fail "$(cat /tmp/refused)"
logged -p warning 'admin-refused: user'

echo "-- one more port"
pid=$(show MainPID)
printf '[Socket]\nListenStream=192.0.2.10:7480\n' >/etc/systemd/system/rmemd.socket.d/more.conf
systemctl daemon-reload
systemctl restart rmemd.socket || fail "restart of the socket"
# rmemctl gets an answer when the service is ready
rmemctl status | grep -E '^control .*192.0.2.10:7480' || fail "the new port is not served"
state rmemd.socket active
state rmemd.service active
[ "$(show MainPID)" != "$pid" ] || fail "the service was not restarted"

echo "-- a wrong configuration"
sed -i.good 's/^insecure = yes$/insecure = yes   # for now/' $conf
! systemctl restart rmemd || fail "a wrong configuration is accepted"
# leases are kept: systemd starts the service again until the configuration is right
logged 'rmemd.service: Main process exited, code=exited, status=1'
logged -p err RMEM_EVENT=start-failed 'rmemd.conf:[0-9]+: insecure: .*comment'
cp $conf.good $conf
# one that has read the wrong configuration may still be ending
await 30 rmemctl status || fail "the service does not start again"
[ -n "$(RMEM_SERVER=192.0.2.10 rmem ls)" ] || fail "a wrong configuration loses the leases"
# without leases the service is started only once
systemctl stop rmemd || fail "stop"
sed -i 's/^insecure = yes$/insecure = yes   # for now/' $conf
! systemctl start rmemd || fail "a wrong configuration is accepted"
state rmemd.service failed
[ "$(show ExecMainStatus)" = 78 ] || fail "exit status $(show ExecMainStatus)"
[ "$(show NRestarts)" = 0 ] || fail "the service was started $(show NRestarts) times more"
logged -p err RMEM_EVENT=start-failed 'rmemd.conf:[0-9]+: insecure: .*comment'
# clients that connect meanwhile do not make the socket unit fail
! rmemctl status 2>/tmp/refused || fail "a service that has failed answers"
grep 'without an answer: its log tells why' /tmp/refused || fail "$(cat /tmp/refused)"
state rmemd.service failed
[ "$(show Result)" = exit-code ] || fail "the service ended by $(show Result)"
state rmemd.socket active
mv $conf.good $conf
rmemctl status || fail "the socket does not start the service"
state rmemd.service active

echo "-- stop"
. "$WORK/stop-command" || fail "stop"
! rmemctl status || fail "the service still answers"
state rmemd.service inactive
state rmemd.socket inactive
[ "$(show Result)" = success ] || fail "not a clean stop: $(show Result)"
kernel_clean
CMD

machine 612:rxe run --systemd --timeout 900 "bash $WORK/cmd.sh $WORK"
