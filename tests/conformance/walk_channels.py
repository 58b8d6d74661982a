# SPDX-License-Identifier: BSD-3-Clause
"""Channels over TCP: how they begin, and each operation."""

import struct

from case import case, equal, holds, refused
from channel import ADD, COPY, CRC, FILL, NOTIFY, PING, READ, SWAP, WRITE, Channel, crc32c
from client import Closed
from walk_events import keyed
from walk_leases import PAGE, lent

MOST = 1 << 20          # bytes of a request
INBAND_MOST = 1 << 18   # bytes of an in-band request


def pattern(n):
    return bytes(i * 7 + 3 & 0xff for i in range(n))


@case
def channel__is_admitted(world):
    with world.open() as client, Channel(client) as channel:
        equal((channel.status, channel.why), ("done", ""), "the status")
    with world.open(channel=1) as client:
        granted = {"channel": client.welcome["channel"], "family": 0}
        with Channel(client, granted) as channel:
            equal(channel.status, "done", "the status of the channel of welcome")


@case
def channel__is_refused_by_its_hello(world):
    with world.open() as client, world.open() as other:
        other_grant = other.call("open_channel", endpoint=other.endpoint())["channel"]
        for status, hello in (
                ("malformed", {"magic": 0x6d656d72}), ("malformed", {"magic": 0}),
                ("malformed", {"version": 0}), ("malformed", {"version": 2}),
                ("malformed", {"bytes": 43}),
                ("forbidden", {"token": bytes(16)}),
                ("forbidden", {"token": client.welcome["token"]}),
                ("forbidden", {"session": 0}),
                ("forbidden", {"session": client.welcome["session"] + 1000}),
                ("forbidden", {"session": other.welcome["session"]}),
                ("forbidden", {"channel": 0}), ("forbidden", {"channel": 0xffffffff}),
                ("forbidden", {"channel": other_grant}),
                ("forbidden", {"channel": other_grant, "session": other.welcome["session"]})):
            with Channel(client, **hello) as channel:
                equal(channel.status, status, f"the status of a hello with {hello} ({channel.why})")
                holds(channel.why or status == "malformed", "it says why")
                holds(len(channel.why.encode()) <= 255 and "\n" not in channel.why,
                      "in one line of 255 bytes")
                holds(channel.ended(), "the stream ends")


@case
def channel__is_connected_once(world):
    with world.open() as client, Channel(client) as first:
        with Channel(client, first.granted) as second:
            equal(second.status, "invalid", f"the status of a second stream ({second.why})")
        equal(first.inband(PING), ("done", 0))


@case
def channel__of_a_closed_number_is_refused(world):
    with world.open() as client:
        granted = client.call("open_channel", endpoint=client.endpoint())
        client.call("close_channel", channel=granted["channel"])
        with Channel(client, granted) as channel:
            equal(channel.status, "stale", "the status of a channel that was closed")
        with Channel(client, {**granted, "channel": granted["channel"] + 7}) as channel:
            equal(channel.status, "stale", "the status of a channel that was not granted")
        with Channel(client) as channel:
            client.call("close_channel", channel=channel.granted["channel"])
            holds(channel.ended(), "the stream of a channel that is closed ends")


@case
def open_channel__is_refused_by_its_endpoint(world):
    with world.open() as client:
        for endpoint in (len(client.welcome["endpoints"]), 31, 255):
            refused(client, "invalid", "open_channel", endpoint=endpoint)


@case
def channels__are_as_many_as_welcome_says(world):
    with world.open() as client:
        most = client.welcome["channels_max"]
        for _ in range(most):
            client.call("open_channel", endpoint=client.endpoint())
        refused(client, "quota", "open_channel", endpoint=client.endpoint())


@case
def join_channel__is_not_for_tcp(world):
    with world.open() as client:
        granted = client.call("open_channel", endpoint=client.endpoint())["channel"]
        for number in (granted, 0, 0xffffffff):
            refused(client, "unsupported" if number == granted else "invalid", "join_channel",
                    channel=number, qpn=2,
                    mtu=1024)


@case
def bytes__are_read_as_they_were_written(world):
    with world.open() as client, Channel(client) as channel:
        _, key = keyed(client, channel, bytes=2 * MOST)
        holds(channel.load(key, 0, MOST) == bytes(MOST), "new memory is zero")
        for offset, n in ((0, 1), (1, 1), (4095, 2), (0, MOST), (MOST - 1, MOST),
                          (2 * MOST - 1, 1)):
            data = pattern(n)
            equal(channel.store(key, offset, data), b"", "what follows the response to a write")
            holds(channel.load(key, offset, n) == data, f"{n} bytes at {offset} are those written")


@case
def requests__are_answered_in_their_order(world):
    with world.open() as client, Channel(client) as channel:
        _, key = keyed(client, channel)
        cookies = [channel.send(WRITE, key, 8 * i, 8, struct.pack("<Q", i)) for i in range(256)]
        cookies += [channel.send(READ, key, 8 * i, 8, cookie=(1 << 64) - 1 - i) for i in range(256)]
        for i, cookie in enumerate(cookies):
            status, data = channel.response(cookie)
            equal((status, data), ("done", b"" if i < 256 else struct.pack("<Q", i - 256)),
                  f"response {i}")


@case
def range__is_within_the_key(world):
    with world.open() as client, Channel(client) as channel:
        _, key = keyed(client, channel, bytes=2 * PAGE + 100)
        end = 2 * PAGE + 100
        for offset, n, status in ((end - 1, 1, "done"), (0, end, "done"), (end, 1, "outside"),
                                  (end - 1, 2, "outside"),
                                  (-1, 1, "outside"), (-1, 2, "outside"), (0, end + 1, "outside"),
                                  (1, end, "outside"), (0, MOST, "outside")):
            equal(channel.do(READ, key, offset, n)[0], status,
                  f"the status of a read of {n} at {offset}")
            equal(channel.do(WRITE, key, offset, n, pattern(n))[0], status,
                  f"the status of a write of {n} at {offset}")
            if n <= INBAND_MOST:
                for op in (FILL, CRC):
                    equal(channel.inband(op, key, offset, n)[0], status,
                          f"the status of op {op} on {n} at {offset}")
        for addr in (0, (1 << 64) - 1, (1 << 64) - 8):
            equal(channel.do(READ, key, 0, 8, addr=addr)[0], "outside",
                  f"the status of a read at {addr:#x}")


@case
def key__is_that_of_the_session(world):
    with world.open() as client, Channel(client) as channel, world.open() as other, \
            Channel(other) as stranger:
        lease, key = keyed(client, channel, name="channels/key")
        for rkey in (0, 1, key["rkey"] + 1, (1 << 64) - 1):
            equal(channel.do(READ, key, 0, 8, rkey=rkey)[0], "dead_key",
                  "the status with an rkey that is none")
        equal(stranger.do(READ, key, 0, 8)[0], "dead_key",
              "the status with the rkey of another session")
        other.call("attach", name="channels/key", rights=1)
        equal(stranger.do(READ, key, 0, 8)[0], "dead_key",
              "the status with the rkey of another session")
        client.call("free", lease=lease["lease"])
        for op, data in ((READ, b""), (WRITE, bytes(8))):
            equal(channel.do(op, key, 0, 8, data)[0], "dead_key",
                  "the status with the rkey of an ended lease")
        equal(channel.inband(CRC, key, 0, 8)[0], "dead_key")
        equal(channel.inband(NOTIFY, key)[0], "dead_key")
        equal(channel.add(key, 0, 1)[0], "dead_key")


@case
def key__for_reading_permits_nothing_else(world):
    with world.open() as owner, world.open() as client, Channel(client) as channel:
        lent(owner, name="channels/read")
        key = client.call("attach", name="channels/read", rights=1)["keys"][0]
        equal(channel.load(key, 0, 8), bytes(8))
        equal(channel.inband(CRC, key, 0, 8), ("done", crc32c(bytes(8))))
        equal(channel.do(WRITE, key, 0, 8, bytes(8))[0], "forbidden", "a write")
        equal(channel.add(key, 0, 1)[0], "forbidden", "an atomic")
        equal(channel.swap(key, 0, 0, 1)[0], "forbidden", "an atomic")
        equal(channel.inband(FILL, key, 0, 8)[0], "forbidden", "a fill")
        equal(channel.inband(NOTIFY, key)[0], "forbidden", "a notification")
        itself = {"source_rkey": key["rkey"], "source_addr": key["addr"]}
        equal(channel.inband(COPY, key, 0, 8, **itself)[0], "forbidden", "a copy")
        equal(channel.load(key, 0, 8), bytes(8), "the bytes afterwards")
        owner.call("remove", name="channels/read")


@case
def atomics__find_and_replace(world):
    with world.open() as client, Channel(client) as channel:
        _, key = keyed(client, channel)
        holds(client.welcome["endpoints"][channel.number]["flags"] & 2, "the endpoint has atomics")
        found = lambda n: ("done", struct.pack("<Q", n))
        equal(channel.add(key, 8, 5, ignored=99), found(0))
        equal(channel.add(key, 8, (1 << 64) - 3), found(5))
        equal(channel.swap(key, 8, 2, 77), found(2))
        equal(channel.swap(key, 8, 2, 88), found(77))
        equal(channel.load(key, 0, 24), struct.pack("<QQQ", 0, 77, 0))
        for offset in (1, 2, 4, 7, PAGE - 12):
            equal(channel.add(key, offset, 1)[0], "invalid", f"the status at {offset}")
            equal(channel.swap(key, offset, 0, 1)[0], "invalid", f"the status at {offset}")
        equal(channel.add(key, PAGE, 1)[0], "outside")
        equal(channel.load(key, 0, 24), struct.pack("<QQQ", 0, 77, 0))


@case
def inband__works_near_the_memory(world):
    with world.open() as client, Channel(client) as channel:
        holds(client.welcome["endpoints"][channel.number]["flags"] & 4,
              "the endpoint serves in-band requests")
        _, key = keyed(client, channel, bytes=MOST)
        equal(channel.inband(PING), ("done", 0))
        word = struct.pack("<Q", 0x0807060504030201)
        equal(channel.inband(FILL, key, 3, 21, operand=0x0807060504030201), ("done", 0))
        equal(channel.load(key, 0, 26), bytes(3) + (word * 3)[:21] + bytes(2),
              "the bytes of a fill")
        channel.store(key, 0, b"123456789")
        equal(channel.inband(CRC, key, 0, 9), ("done", 0xe3069283))
        data = pattern(1000)
        channel.store(key, 0, data)
        for target in (100, 0, 50):
            before = channel.load(key, 0, 2000)
            equal(channel.inband(COPY, key, target, 500, source_rkey=key["rkey"],
                                 source_addr=key["addr"] + 60),
                  ("done", 0))
            want = before[:target] + before[60:560] + before[target + 500:]
            holds(channel.load(key, 0, 2000) == want, f"the bytes of a copy to {target}")
        channel.inband(FILL, key, 0, INBAND_MOST, operand=0)
        equal(channel.inband(CRC, key, 0, INBAND_MOST), ("done", crc32c(bytes(INBAND_MOST))))
        equal(channel.inband(COPY, key, 0, 8, source_rkey=0)[0], "dead_key",
              "a copy without a source")
        beyond = {"source_rkey": key["rkey"], "source_addr": key["addr"] + MOST}
        equal(channel.inband(COPY, key, 0, 8, **beyond)[0], "outside")


@case
def request__of_impossible_form_ends_the_stream(world):
    ops = (READ, WRITE, SWAP, ADD, PING, FILL, COPY, CRC, NOTIFY)
    wrong = [(op, {}) for op in (0, 10, 11, 255, 0xffff)] + [(op, {"flags": 1}) for op in ops] + [
        (READ, {"length": 0}), (READ, {"length": MOST + 1}), (READ, {"length": 0xffffffff}),
        (WRITE, {"length": 0}),
        (WRITE, {"length": MOST + 1}), (SWAP, {"length": 8}), (ADD, {"length": 8}),
        (ADD, {"length": 17}),
        (FILL, {"length": 0}), (FILL, {"length": INBAND_MOST + 1}), (CRC, {"length": 0}),
        (CRC, {"length": INBAND_MOST + 1}), (COPY, {"length": 0}),
        (COPY, {"length": INBAND_MOST + 1}),
        (PING, {"length": 1}), (NOTIFY, {"length": 1})]
    for op, values in wrong:
        with world.open() as client, Channel(client) as channel:
            _, key = keyed(client, channel)
            fields = {"length": {SWAP: 16, ADD: 16, PING: 0, NOTIFY: 0}.get(op, 8)}
            fields.update(values)
            if PING <= op <= NOTIFY:
                channel.sock.sendall(channel.pack("In-band request", op=op,
                                                  flags=fields.get("flags", 0),
                                                  bytes=fields["length"]))
            else:
                channel.send(op, key, 0, data=bytes(16), **fields)
            holds(channel.ended(), f"a request of op {op} with {values} ends the stream")


@case
def channels__end_with_the_control_connection(world):
    with world.open() as client, Channel(client) as channel, world.server.connect() as again:
        _, key = keyed(client, channel)
        again.resume(client)
        holds(channel.ended(), "the channel of the former connection ends")
        lease = again.call("allocate", bytes=PAGE, node=-1)
        with Channel(again) as fresh:
            lease = again.call("attach", lease=lease["lease"])
            fresh.store(lease["keys"][0], 0, b"bytes")
            equal(fresh.do(READ, key, 0, 8)[0], "dead_key", "the rkey of the former connection")


@case
def resize__keeps_old_keys_of_what_grows(world):
    with world.open() as client, Channel(client) as channel:
        lease, key = keyed(client, channel)
        channel.store(key, 0, pattern(PAGE))
        grown = client.call("resize", lease=lease["lease"], bytes=3 * PAGE)["keys"]
        equal(channel.load(key, 0, PAGE), pattern(PAGE), "the bytes by the old rkey")
        equal(channel.load(grown[0], 0, PAGE), pattern(PAGE), "the bytes by the new rkey")
        cut = client.call("resize", lease=lease["lease"], bytes=100)["keys"]
        holds(channel.do(READ, grown[0], 0, PAGE)[0] in ("outside", "dead_key"),
              "what was cut is not read")
        equal(channel.load(cut[0], 0, 100), pattern(100), "what stays")
        again = client.call("resize", lease=lease["lease"], bytes=PAGE)["keys"]
        equal(channel.load(again[0], 0, PAGE), pattern(100) + bytes(PAGE - 100),
              "what was cut is zero")


@case
def stream__that_is_cut_in_a_write_is_no_request(world):
    with world.open() as client, Channel(client) as channel, Channel(client) as second:
        _, key = keyed(client, channel)
        begin = channel.pack("Request", op=WRITE, bytes=100, rkey=key["rkey"], addr=key["addr"])
        channel.sock.sendall(begin + bytes(50))
        channel.sock.close()
        try:
            equal(second.load(key, 60, 40), bytes(40), "what did not arrive")
        except Closed as why:
            raise AssertionError("the other channel ended") from why
