# SPDX-License-Identifier: BSD-3-Clause
"""Frames that the page allows, and those that it does not."""

import struct
import time

import frame
from case import case, disconnected, equal, holds
from client import Refused, u64

# characters of which the page refuses each
REFUSED = ("\0", "\x1f", "\n", "\x7f", "\x80", "\x9f", "\u2028", "\u2029", "\ufff9", "\ufffa",
           "\ufffb", "\u202e",
           "\u200b", "\u00ad", "\ufeff", "\u3164", "\U000e0001")
# no UTF-8: cut, overlong, a surrogate, beyond the last character
BROKEN = (b"\xff", b"\xc3", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
          b"\x80")


def strings(world):
    return [(m, f) for m in world.page.requests() for f in m.fields if f.kind == "str"
            and m.name != "hello"]


@case
def replies__have_the_id_of_the_request(world):
    with world.open() as client:
        for id_ in (client.next_id, 1000, 1 << 32, (1 << 64) - 1):
            client.call("ping", id_)


@case
def frame__may_come_in_any_pieces(world):
    with world.open() as client:
        data = frame.frame(world.page.messages["ping"].number, 50)
        for byte in data:
            client.send_bytes(bytes([byte]))
            time.sleep(0.001)
        client.answer(50, "ok")
        client.send_bytes(data * 3)
        for _ in range(3):
            client.answer(50, "ok")


@case
def length__is_within_its_limits(world):
    ping = world.page.messages["ping"].number
    with world.open() as client:
        client.send_bytes(frame.frame(ping, 60, bytes(65536 - 16)))
        client.answer(60, "ok")
    for length in (0, 1, 15, 65537, 65536 + 16, 0x80000000, 0xffffffff):
        with world.open() as client:
            client.send_bytes(frame.frame(ping, 60, bytes(32), length=length))
            disconnected(client, 0)


@case
def type__that_is_unknown_is_refused_alone(world):
    known = {m.number for m in world.page.requests()}
    with world.open() as client:
        for number in range(0x40):
            if number not in known:
                client.send_bytes(frame.frame(number, 100 + number, bytes(number)))
                try:
                    client.answer(100 + number)
                except Refused as why:
                    equal(why.code, world.page.errors["unknown"], f"the error of type {number:#x}")
                else:
                    raise AssertionError(f"type {number:#x} is answered")
        client.sync()


@case
def type__that_is_no_request_ends_the_connection(world):
    for number in (0x40, 0x41, 0x42, 0x47, 0x7f, 0x80, 0x84, 0xff, 0x100, 0x104, 0xffff):
        with world.open() as client:
            client.send_bytes(frame.frame(number, 70))
            try:
                client.take()
            except Refused:
                pass
            holds(client.ended(), f"a frame of type {number:#x} ends the connection")


@case
def header__has_a_zero(world):
    for zero in (1, 0x8000, 0xffff):
        with world.open() as client:
            client.send_bytes(frame.frame(0x3f, 80, zero=zero))
            disconnected(client, 80)
        with world.open() as client:
            client.send_bytes(frame.frame(world.page.messages["ping"].number, 80, zero=zero))
            disconnected(client, 80)


@case
def body__that_is_truncated_ends_the_connection(world):
    for message in world.page.requests():
        body = frame.encode(world.page, message, {})
        for n in range(len(body)):
            with (world.server.connect() if message.name == "hello" else world.open()) as client:
                client.send_bytes(frame.frame(message.number, 90, body[:n]))
                disconnected(client, 90)


@case
def body__may_have_more_fields(world):
    with world.open() as client:
        lease = client.call("allocate", behind=u64(7), bytes=4096, node=-1,
                            name="frames/more")["lease"]
        some = {"lease": lease, "name": "frames/more", "rights": 1, "bytes": 4096}
        for name in ("watch", "unwatch", "renew", "rename", "resize", "stat", "list", "ping",
                     "detach", "attach",
                     "free"):
            values = {f.name: some[f.name] for f in world.page.messages[name].fields
                      if f.name in some}
            if name == "attach":
                values.update(lease=0, rights=3)
            if name == "rename":
                values["name"] = "frames/other"
                some["name"] = "frames/other"
            client.call(name, behind=b"\1\0\0\0\5\0later", **values)
        client.call("bye", behind=u64(1) * 1000)


@case
def string__over_its_limit_ends_the_connection(world):
    for message, field in strings(world):
        for n in (field.size + 1, 65535 - 1000):
            with world.open() as client:
                disconnected(client, client.ask(message.name, **{field.name: "x" * n}))


@case
def string__beyond_its_frame_ends_the_connection(world):
    for message, field in strings(world):
        body = frame.encode(world.page, message, {field.name: b"MARK"})
        body = body.replace(struct.pack("<H", 4) + b"MARK", struct.pack("<H", field.size))
        with world.open() as client:
            client.send_bytes(frame.frame(message.number, 90,
                                          body[:body.index(struct.pack("<H", field.size)) + 2]))
            disconnected(client, 90)


@case
def string__is_clean_text(world):
    bad = [c.encode() for c in REFUSED] + list(BROKEN)
    for message, field in strings(world):
        for text in bad:
            with world.open() as client:
                try:
                    client.call(message.name, **{field.name: b"a" + text + b"b"})
                except Refused:
                    continue
                raise AssertionError(f"{message.name} takes {field.name} {text!r}")


@case
def string__is_any_other_text(world):
    with world.open() as client:
        for name in ("x" * 255, " ", "\u00e4" * 127, "\U0001f600", "a/b\\c'\"<>&%", "\u65e5\u672c"):
            lease = client.call("allocate", bytes=1, node=-1, name=name)
            equal(lease["name"], name)
            equal(client.call("stat", name=name)["entries"][0]["name"], name)
            client.call("remove", name=name)


@case
def answers__wait_for_a_client_that_reads_late(world):
    with world.open() as client:
        for i in range(64):
            client.call("allocate", bytes=0, node=-1, name=f"late/{i:0200}")
        for _ in range(4):
            ids = [client.ask("list", prefix="late/") for _ in range(256)]
            for id_ in ids:
                equal(len(client.answer(id_, "entries")["entries"]), 64, "the entries of an answer")
        for i in range(64):
            client.call("remove", name=f"late/{i:0200}")
