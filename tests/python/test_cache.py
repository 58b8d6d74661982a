# SPDX-License-Identifier: BSD-3-Clause
"""Caches."""

import asyncio
import os
import pickle
import select
import threading
import unittest
import unittest.mock

import rmem
from rmem import aio
from stage import URI, child

BYTES = 8 << 20


class Caches(unittest.TestCase):
    def setUp(self):
        self.cache = rmem.Cache([URI], "python", bytes=BYTES)
        self.addCleanup(self.cache.close)

    def test_one_key(self):
        into = bytearray(64)
        self.assertIsNone(self.cache.get("one/none", into))
        self.cache.put("one/key", b"value")
        self.assertEqual(self.cache.get(b"one/key", into), 5)
        self.assertEqual(into[:5], b"value")
        self.assertEqual(self.cache.exists("one/key"), 5)
        self.assertEqual(self.cache.load("one/key"), b"value")
        self.assertIs(self.cache.delete("one/key"), True)
        self.assertIs(self.cache.delete("one/key"), False)
        self.assertIsNone(self.cache.exists("one/key"))
        self.assertIsNone(self.cache.load("one/key"))

    def test_values_of_all_lengths(self):
        values = [os.urandom(n) for n in (0, 1, 4095, 4096, 65536, 300000)]
        keys = [f"length/{len(value)}" for value in values]
        self.assertEqual(self.cache.put_many(keys, values), [True] * len(keys))
        into = [bytearray(len(value) + 8) for value in values]
        self.assertEqual(self.cache.get_many(keys, into), [len(value) for value in values])
        for value, got in zip(values, into):
            self.assertEqual(got[:len(value)], value)
        self.assertEqual(self.cache.load(keys[-1]), values[-1])

    def test_stored_missing_and_failed(self):
        self.cache.put("mixed/there", bytes(100))
        ends = self.cache.get_many(["mixed/there", "mixed/none", "mixed/there"],
                                   [bytearray(100), bytearray(1), bytearray(99)])
        self.assertEqual(ends[:2], [100, None])
        self.assertIsInstance(ends[2], rmem.Error)
        self.assertEqual(self.cache.exists_many(["mixed/none", "mixed/there"]), [None, 100])
        self.assertEqual(self.cache.delete_many(["mixed/there", "mixed/none"]), [True, False])
        with self.assertRaises(rmem.Error):
            self.cache.put("mixed/long", bytes(BYTES))

    def test_more_than_the_depth(self):
        with rmem.Cache([URI], "python", depth=16) as cache:
            keys = [f"deep/{i}" for i in range(1000)]
            values = [str(i).encode() for i in range(1000)]
            self.assertEqual(cache.put_many(keys, values), [True] * 1000)
            into = [bytearray(8) for _ in keys]
            self.assertEqual(cache.get_many(keys, into), [len(value) for value in values])
            self.assertEqual([bytes(one).rstrip(b"\0") for one in into], values)
        self.assertEqual(self.cache.get_many([], []), [])

    def test_time_to_live(self):
        self.cache.put("ttl/key", b"short", ttl_ms=3600000)
        entry = [one for one in self.cache.list() if one.key == b"ttl/key"][0]
        self.assertEqual((entry.bytes, entry.server), (5, 0))
        self.assertTrue(0 < entry.ttl_ms <= 3600000)

    def test_arguments(self):
        for key, error in (("", ValueError), ("k" * 256, ValueError), (1, TypeError)):
            for call in (self.cache.exists, self.cache.delete,
                         lambda key: self.cache.put(key, b"")):
                with self.assertRaises(error):
                    call(key)
        for keys, memories, error in ((["a"], [], ValueError), (["a"], 1, TypeError),
                                      (["a"], [b""], BufferError), (1, [], TypeError)):
            with self.assertRaises(error):
                self.cache.get_many(keys, memories)
        for call in (lambda: self.cache.put("a", b"", ttl_ms=(1 << 64) + 1),
                     lambda: self.cache.submit(rmem.PUT, ["a"], [b""], ttl_ms=1 << 64),
                     lambda: rmem.Cache([URI], "python-none", bytes=(1 << 64) + BYTES),
                     lambda: rmem.Cache([URI], "python", depth=(1 << 32) + 16)):
            with self.assertRaises(OverflowError):
                call()
        with self.assertRaises(ValueError):
            self.cache.submit(0, [])
        with self.assertRaises(rmem.NotFound):
            rmem.Cache([URI], "python-none")
        with self.assertRaises(ValueError):
            rmem.Cache([URI, URI], "python")

    def test_too_small_leaves_nothing(self):
        with rmem.open(URI) as session:
            for n in (1, 100, 4096, 1 << 20):
                with self.assertRaisesRegex(rmem.Error, "no room for a cache"):
                    rmem.Cache([URI], "small", bytes=n)
            with self.assertRaises(rmem.NotFound):
                session.stat("cache/small")
            with session.alloc(100, name="cache/lease") as lease:
                with self.assertRaisesRegex(rmem.Error, "cache/lease of 100 bytes is no cache"):
                    rmem.Cache([URI], "lease")
                lease.destroy()

    def test_time_out(self):
        for timeout in (-1, 1e300, float("inf"), float("nan")):
            for call in (rmem.open, lambda uri, **more: rmem.Cache([uri], "python", **more)):
                with self.assertRaisesRegex(ValueError, "timeout is 0 to"):
                    call(URI, timeout=timeout)

    def test_without_waiting(self):
        # its own, as others' values may evict these
        cache = rmem.Cache([URI], "python-alone", bytes=BYTES)
        self.addCleanup(cache.close)
        into = bytearray(2 << 20)  # too much for submit() itself to end it
        cache.submit(rmem.PUT, ["async/a", "async/b"], [b"1", into], tag="put")
        ended = []
        while not ended:
            select.select([cache], [], [])
            ended = cache.poll()
        self.assertEqual(ended, [("put", [True, True])])
        cache.submit(rmem.GET, ["async/b"], [into], tag=7)
        with self.assertRaises(BufferError):
            into.append(1)
        # a call that waits meanwhile takes the result, and the descriptor tells so
        self.assertEqual(cache.exists("async/a"), 1)
        ended = []
        while not ended:
            select.select([cache], [], [])
            ended = cache.poll()
        self.assertEqual(ended, [(7, [len(into)])])
        into.append(1)

    def test_results_that_cannot_be_made(self):
        class Classes:
            """Raises once, then has none."""
            raises = True

            def get(self, _, default):
                raises, self.raises = self.raises, False
                if raises:
                    raise MemoryError
                return default

        def drain():
            """What is told of, and how often poll() has raised."""
            ended, raised = {}, 0
            while len(ended) < 3:
                self.assertTrue(select.select([cache], [], [], 30)[0], ended)
                try:
                    ended.update(cache.poll())
                except MemoryError:
                    raised += 1
            return ended, raised

        cache = rmem.Cache([URI], "python-alone", bytes=BYTES)
        self.addCleanup(cache.close)
        into = bytearray(2 << 20)  # too much for submit() itself to end it
        cache.put("lost/a", into)
        short = [bytearray(len(into) - 1) for _ in range(2)]
        with unittest.mock.patch.object(rmem.errors, "_classes", Classes()):
            cache.submit(rmem.GET, ["lost/a"], [into], tag="whole")
            cache.submit(rmem.GET, ["lost/a"], short[:1], tag="short")
            cache.submit(rmem.GET, ["lost/a"] * 20, short[1:] * 20, tag="many")
            ended, raised = drain()
        self.assertEqual((ended["whole"], raised), ([len(into)], 1))
        results = ended["short"] + ended["many"]
        self.assertEqual([type(one) for one in results].count(MemoryError), 1)
        self.assertEqual(sum(isinstance(one, rmem.Error) for one in results), 20)
        with self.assertRaises(MemoryError):  # that a call of another thread has met
            rmem.caches._one([MemoryError()])  # pylint: disable=protected-access

    def test_threads(self):
        failures = []

        def work(i):
            try:
                for j in range(50):
                    keys = [f"thread/{i}/{j}/{k}" for k in range(8)]
                    values = [os.urandom(512) for _ in keys]
                    self.cache.put_many(keys, values)
                    into = [bytearray(512) for _ in keys]
                    if self.cache.get_many(keys, into) != [512] * 8 or into != values:
                        failures.append((i, j))
            except Exception as why:  # pylint: disable=broad-except
                failures.append(why)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_closed(self):
        into = bytearray(8)
        self.cache.submit(rmem.GET, ["closed"], [into])
        self.cache.close()
        self.cache.close()
        into.append(1)
        self.assertTrue(self.cache.closed)
        for call in (lambda: self.cache.exists("a"), self.cache.poll, self.cache.stat,
                     self.cache.list, self.cache.fileno,
                     lambda: self.cache.submit(rmem.GET, ["a"], [into])):
            with self.assertRaisesRegex(rmem.Stale, "closed"):
                call()

    def test_child_and_pickle(self):
        with self.assertRaises(TypeError):
            pickle.dumps(self.cache)

        def use():
            try:
                self.cache.exists("a")
            except rmem.Stale:
                self.cache.close()
                return 0
            return 1
        self.assertEqual(child(use), 0)
        self.cache.exists("a")

    def test_registered(self):
        pool = bytearray(1 << 20)
        with memoryview(pool) as view:
            self.cache.register(view[:1 << 19])
            self.cache.register(pool)
            self.cache.put("registered", view[:4096])
            self.assertEqual(self.cache.get("registered", view[8192:16384]), 4096)
            self.cache.unregister(view)
            with self.assertRaisesRegex(rmem.NotFound, "no such memory"):
                self.cache.unregister(view)
            with self.assertRaises(BufferError):
                self.cache.register(view[::2])
        with self.assertRaises(BufferError):
            pool.append(1)  # half of it is registered still
        with memoryview(pool) as view:
            self.cache.unregister(view[:1 << 19])
        pool.append(1)
        constant = b"value" * 1000
        self.cache.register(constant)
        self.cache.put("registered", constant)
        self.cache.unregister(constant)
        with self.assertRaises(rmem.Invalid):
            self.cache.register(bytearray())
        with self.assertRaises(TypeError):
            self.cache.register(1)
        self.assertEqual(self.cache.stat()["copied_bytes"], 0)  # of TCP

    def test_registered_until_the_end(self):
        pool = bytearray(1 << 16)
        self.cache.register(pool)
        with self.assertRaises(BufferError):
            pool.append(1)
        self.cache.close()
        pool.append(1)
        for call in self.cache.register, self.cache.unregister:
            with self.assertRaisesRegex(rmem.Stale, "closed"):
                call(pool)
        cache = rmem.Cache([URI], "python")
        cache.register(pool)
        del cache
        pool.append(1)

    def test_counters(self):
        self.cache.put("count", b"x")
        self.cache.exists("count")
        stat = self.cache.stat()
        self.assertEqual((stat["servers"], stat["servers_open"], stat["stored"]), (1, 1, 1))
        self.assertEqual(self.cache.stat(0)["hits"], 1)
        with self.assertRaises(rmem.Invalid):
            self.cache.stat(1)


class Awaited(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        asyncio.get_running_loop().set_debug(False)  # which is slow
        self.sync = await asyncio.to_thread(rmem.Cache, URI, "python", bytes=BYTES)
        self.cache = aio.Cache(self.sync)
        self.addCleanup(self.cache.close)

    async def test_keys(self):
        await self.cache.put("aio/key", b"value")
        into = bytearray(8)
        self.assertEqual(await self.cache.get("aio/key", into), 5)
        self.assertEqual(await self.cache.exists("aio/key"), 5)
        self.assertTrue(await self.cache.delete("aio/key"))
        self.assertIsNone(await self.cache.exists("aio/key"))
        with self.assertRaises(rmem.Error):
            await self.cache.put("aio/long", bytes(BYTES))

    async def test_many_tasks(self):
        async def work(i):
            await self.cache.put(f"aio/{i}", str(i).encode())
            into = bytearray(4)
            self.assertEqual(await self.cache.get(f"aio/{i}", into), len(str(i)))
            self.assertEqual(into.rstrip(b"\0"), str(i).encode())
        await asyncio.gather(*(work(i) for i in range(500)))

    async def test_cancelled(self):
        into = bytearray(8)
        future = self.cache.get_many(["aio/none"], [into])
        future.cancel("why")
        with self.assertRaises(asyncio.CancelledError):
            await future
        into.append(1)
        self.assertIsNone(await self.cache.exists("aio/none"))

    async def test_one_loop_after_the_other(self):
        def work():
            async def main():
                self.cache.get_many(["aio/none"], [bytearray(8)])
                await self.cache.exists("aio/none")
            asyncio.run(main())
        for _ in range(3):
            await asyncio.to_thread(work)
        await self.cache.exists("aio/none")
        with self.assertRaisesRegex(RuntimeError, "another event loop"):
            await asyncio.to_thread(work)

    async def test_closed(self):
        futures = [self.cache.exists_many([f"aio/{i}"]) for i in range(100)]
        self.cache.close()
        for end in await asyncio.gather(*futures, return_exceptions=True):
            self.assertTrue(isinstance(end, rmem.Stale) or end == [None])
