# SPDX-License-Identifier: BSD-3-Clause
"""The page itself: it can be read, and its numbers are right."""

import re

import channel
from case import case, equal, holds
from tls import identity


@case
def tables__are_read(world):
    messages = world.page.by_number
    equal(sorted(n for n in messages if n < 0x40), list(range(1, 0x15)), "the requests")
    equal(sorted(n for n in messages if 0x40 <= n < 0x80), list(range(0x40, 0x48)), "the replies")
    holds(all(f.item in world.page.messages for m in messages.values() for f in m.fields if f.item),
          "each item of a list has a table")
    holds(all(world.page.messages[m.reply].number >= 0x40 for m in world.page.requests()),
          "each request has a reply")
    equal([f.name for f in world.page.messages["error"].fields], ["code", "text"],
          "the fields of error")
    equal(list(world.page.reasons), list(range(1, 10)), "the reasons")


@case
def checksum__is_that_of_the_page(world):
    text, crc = re.search(r'CRC-32C of "(\w+)" is 0x(\w+)',
                          world.page.text.replace("\n", " ")).groups()
    equal(channel.crc32c(text.encode()), int(crc, 16), "the checksum")


@case
def secrets__are_those_of_the_page(world):
    rows = world.page.vectors
    secret = bytes(range(32))
    number, session = 7, 8589934593
    address = bytes(10) + b"\xff\xff" + bytes((192, 0, 2, 9))
    equal(channel.derive(secret, "rmem channel", number, session)[:16].hex(), rows["token"])
    equal(channel.derive(secret, "rmem origin", number, session, address)[:8].hex(),
          rows["origin of 192.0.2.9"])
    equal(channel.derive(secret, "rmem key", number, session).hex(),
          rows["key of the channel's TLS"])
    equal(identity("red", bytes(range(16))),
          rows["identity of the key 00 01 02 ... 0f of the tenant red"])
