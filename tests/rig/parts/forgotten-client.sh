# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# A firewall before the server forgets the flows of data, while the control connection lives: its
# packets are lost, and those of others are not.  A transfer over each fabric goes on in its time,
# over another channel.
keys_take
rig-await serving
mkfifo /tmp/pipe
head -c 12000000 /dev/urandom >/tmp/in

# write FROM BYTES: a part of the file into the pipe
write()
{
	tail -c "+$(($1 + 1))" /tmp/in | head -c "$2" >&7 ||
		fail "the put has ended: $(cat /tmp/put.err)"
}

for fabric in rdma tcp; do
	uri="rmem://10.8.0.1?fabric=$fabric"
	rmem -s "$uri" put "$fabric" /tmp/pipe 2>/tmp/put.err &
	put=$!
	exec 7>/tmp/pipe
	write 0 4000000
	rig-mark "connected.$fabric"
	rig-await "watched.$fabric"
	write 4000000 4000000
	rig-mark "moved.$fabric"
	rig-await "forgotten.$fabric"
	started=$SECONDS
	write 8000000 4000000
	exec 7>&-
	wait "$put" || fail "the put over $fabric ended with $? after" \
		"$((SECONDS - started)) s: $(cat /tmp/put.err)"
	echo "over $fabric: $((SECONDS - started)) s"
	rig-mark "ended.$fabric"
	rmem -s "$uri" get "$fabric" /tmp/out || fail "get"
	cmp /tmp/in /tmp/out || fail "wrong bytes"
done
