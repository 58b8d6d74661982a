# SPDX-License-Identifier: BSD-3-Clause
"""The page itself: it can be read, and its numbers are right."""

import re

import channel
from case import case, equal, holds


@case
def tables__are_read(world):
    messages = world.page.by_number
    equal(sorted(n for n in messages if n < 0x40), list(range(1, 0x15)), "the requests")
    equal(sorted(n for n in messages if 0x40 <= n < 0x80), list(range(0x40, 0x48)), "the replies")
    holds(all(f.item in world.page.messages for m in messages.values() for f in m.fields if f.item),
          "each item of a list has a table")
    holds(all(world.page.messages[m.reply].number >= 0x40 for m in world.page.requests()),
          "each request has a reply")
    equal([f.name for f in world.page.messages["error"].fields], ["code", "text"], "the fields of error")
    equal(list(world.page.reasons), list(range(1, 10)), "the reasons")


@case
def checksum__is_that_of_the_page(world):
    text, crc = re.search(r'CRC-32C of "(\w+)" is 0x(\w+)', world.page.text.replace("\n", " ")).groups()
    equal(channel.crc32c(text.encode()), int(crc, 16), "the checksum")
