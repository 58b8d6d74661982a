# SPDX-License-Identifier: BSD-3-Clause
"""Keys that the program supplies."""

import asyncio
import os
import unittest

import rmem
from rmem import aio

URI = os.environ["URI"].partition("?")[0] + "?fabric=tcp"


def key(tenant):
    with open(os.path.join(os.environ["KEYS"], tenant + ".psk"), encoding="ascii") as file:
        return bytes.fromhex(file.read().strip().split(":")[1])


class Keys(unittest.TestCase):
    def test_of_the_tenant_is_asked_for(self):
        asked = []

        def psk(tenant):
            asked.append(tenant)
            return key(tenant)
        with rmem.open(URI, psk=psk) as session:
            session.alloc(4096).write(b"x")
        with rmem.open(URI + "&tenant=red", psk=psk) as session:
            session.alloc(4096, name="keys").write(b"x")
            self.assertEqual(len(session.list("keys")), 1)
        self.assertEqual(asked, ["default", "red"])

    def test_none_or_a_wrong_one(self):
        for psk in (None, lambda _: bytes(32), lambda _: b"short", lambda _: bytes(65)):
            with self.assertRaises(OSError):
                rmem.open(URI, psk=psk)
        with self.assertRaises(ZeroDivisionError):
            rmem.open(URI, psk=lambda _: 1 // 0)
        with self.assertRaises(TypeError):
            rmem.open(URI, psk=lambda _: 1)

    def test_awaited(self):
        async def main():
            async with await aio.open(URI, psk=key) as session:
                lease = await session.alloc(4096)
                await lease.write(b"x")
            with self.assertRaises(OSError):
                await aio.open(URI, psk=lambda _: bytes(32))
        asyncio.run(main())

    def test_of_a_cache(self):
        with rmem.Cache(URI, "keys", bytes=8 << 20, psk=key) as cache:
            cache.put("key", b"value")
            self.assertEqual(cache.load("key"), b"value")
