# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# A program writes through both RDMA devices of its server, each on a network of its own, and one
# network after the other loses every packet: first that without the control connection, then that
# with it.  The program goes on over the other one; a device is used again when its network is back;
# no byte is wrong.
uri="rmem://memory.example?fabric=rdma&channels=2" written=0

# lose NETWORK, heal NETWORK: on both machines
lose()
{
	rig-mark "lose.$1"
	rig-await "lost.$1" || fail "the server does not lose network $1"
	network_lose "$1"
}

heal()
{
	network_heal "$1"
	rig-mark "heal.$1"
	rig-await "healed.$1" || fail "the server does not heal network $1"
}

# write BYTES: the next part of the file into the pipe
write()
{
	tail -c "+$((written + 1))" /tmp/in | head -c "$1" >&7 ||
		fail "the put has ended: $(cat /tmp/put.err)"
	written=$((written + $1))
}

# The next bytes move packets of this network's device.
carries()
{
	local before
	before=$(packets "rxe$1")
	write 500000
	sleep 0.2
	[ $(($(packets "rxe$1") - before)) -gt 20 ]
}

# The control connection is on this network.
control_is_on()
{
	ss -Htn state established "dst 10.$((8 + $1)).0.1:7460" | grep -q .
}

rig-await serving
printf '10.%s.0.1 memory.example\n' 8 9 >>/etc/hosts
mkfifo /tmp/pipe
head -c 100000000 /dev/urandom >/tmp/in
rmem -s "$uri" --timeout 60s put moved /tmp/pipe 2>/tmp/put.err &
put=$!
exec 7>/tmp/pipe
for network in 0 1; do
	await 60 carries "$network" || fail "device $network carries nothing at first"
done
control_is_on 0 || fail "the control connection is not on the first network"

for network in 1 0; do
	lose "$network"
	started=$SECONDS
	await 60 carries $((1 - network)) ||
		fail "the other device carries nothing without network $network"
	write 2000000
	[ "$network" = 1 ] || await 60 control_is_on 1 ||
		fail "the session does not resume over the other network"
	echo "without network $network: 2.5 MB in $((SECONDS - started)) s"
	heal "$network"
	await 60 carries "$network" ||
		fail "device $network carries nothing after its network is back"
done
# the control connection has moved, and channels are where they were
control_is_on 1 || fail "the control connection is not on the second network"
await 60 carries 1 || fail "device 1 carries nothing in the end"
exec 7>&-
wait "$put" || fail "the put ended with $?: $(cat /tmp/put.err)"
rmem -s "$uri" get moved - | cmp - <(head -c "$written" /tmp/in) || fail "wrong bytes"
rig-mark ended
