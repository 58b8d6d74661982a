# SPDX-License-Identifier: BSD-3-Clause
"""The example of the page, byte for byte."""

import re
import socket
import struct

import frame
from case import case, equal
from channel import Channel
from client import SECONDS, Client, receive


def steps(page):
    """The lines of the example in which one side speaks: the side, and hex digits and dots."""
    found = []
    for line in page.example:
        match = re.match(r"([CS]) +((?:[0-9a-f.]+ )+) ", line + "  ")
        if not match:
            continue
        text = match[2].replace(" ", "")
        if found and found[-1][0] == match[1]:
            found[-1][1] += text
        else:
            found.append([match[1], text])
    return found


def fill(text, values):
    """Bytes of a line; dots are replaced by the values."""
    for value in values:
        text = text.replace("." * 2 * len(value), value.hex(), 1)
    return bytes.fromhex(text)


def compare(got, text):
    """Whether bytes begin with those of a line."""
    equal("".join(digit if want != "." else "." for digit, want in zip(got.hex(), text)), text,
          "what the server sends")


def message(link, text):
    """Receive a message, whose first bytes are those of a line."""
    header = link.read(frame.HEADER.size)
    body = link.read(frame.HEADER.unpack(header)[0] - len(header))
    compare(header + body, text)
    return frame.decode(link.page, link.page.by_number[frame.HEADER.unpack(header)[1]],
                        frame.Reader(body))


@case
def example__is_what_happens(world):
    lines = iter(steps(world.page))

    def said(side):
        """The next lines, which are of a side."""
        who, text = next(lines)
        equal(who, side, "the side")
        return text

    def ask(client):
        client.send_bytes(bytes.fromhex(said("C")))
        return message(client, said("S"))

    with Client(world.server) as client:

        client.welcome = ask(client)
        granted = ask(client)
        lease = ask(client)
        key = next(k for k in lease["keys"] if k["endpoint"] == 0)
        place = [struct.pack("<Q", key["rkey"]), struct.pack("<Q", key["addr"])]
        channel = [struct.pack("<Q", client.welcome["session"]),
                   Channel.token(client, granted["channel"])]
        with socket.create_connection(client.address(granted), SECONDS) as stream:
            for values in (channel, place, place):
                stream.sendall(fill(said("C"), values))
                text = said("S")
                compare(receive(stream, len(text) // 2), text)
        ask(client)
        equal(list(lines), [], "lines that are left")
