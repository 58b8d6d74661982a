# SPDX-License-Identifier: BSD-3-Clause
"""asyncio."""

import asyncio
import gc
import os
import random
import threading
import unittest

import rmem
from rmem import aio
from stage import PAGE, URI


class Futures(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.session = rmem.open(URI)
        self.addCleanup(self.session.close)
        self.lease = aio.Lease(self.session.alloc(PAGE))

    async def asyncSetUp(self):
        asyncio.get_running_loop().slow_callback_duration = 60  # of the debug mode

    async def test_operations(self):
        data = os.urandom(4096)
        await self.lease.write(data, 100)
        into = bytearray(4096)
        self.assertIsNone(await self.lease.read_into(into, offset=100))
        self.assertEqual(into, data)

    async def test_many_tasks(self):
        data = os.urandom(PAGE)
        into = [bytearray(64) for _ in range(PAGE // 64)]
        await asyncio.gather(*(self.lease.write(data[i * 64:i * 64 + 64], i * 64)
                               for i in range(PAGE // 64)))

        async def read(i):
            await self.lease.read_into(into[i], i * 64)
        await asyncio.gather(*(read(i) for i in range(PAGE // 64)))
        self.assertEqual(b"".join(into), data)

    async def test_batches(self):
        data = [os.urandom(64) for _ in range(1000)]
        await self.lease.write_many(data, range(0, 64000, 64))
        into = [bytearray(64) for _ in range(1000)]
        await self.lease.read_many(into, range(0, 64000, 64))
        self.assertEqual(into, data)
        await self.lease.read_many([], [])

    async def test_batch_fails(self):
        with self.assertRaises(rmem.Invalid):
            await self.lease.read_many([bytearray(8)] * 3, [0, PAGE, 0])
        into = bytearray(8)
        with self.assertRaises(BufferError):
            self.lease.read_many([into, b"8"], [0, 0])
        into.append(1)
        with self.assertRaises(ValueError):
            self.lease.read_many([into], [0, 0])

    async def test_errors(self):
        with self.assertRaises(rmem.Invalid):
            await self.lease.read_into(bytearray(8), PAGE)
        with self.assertRaises(BufferError):
            await self.lease.read_into(b"8")
        with self.assertRaises(TypeError):
            await self.lease.read_into(bytearray(8), "0")
        await self.lease.read_into(bytearray(8))

    async def test_memory_is_held(self):
        into = bytearray(8)
        future = self.lease.read_into(into)
        with self.assertRaises(BufferError):
            into.append(1)
        await future
        into.append(1)

    async def test_cancelled_before_it_is_submitted(self):
        into = bytearray(8)
        future = self.lease.read_into(into)
        self.assertTrue(future.cancel("why"))
        into.append(1)
        self.assertFalse(future.done())
        with self.assertRaisesRegex(asyncio.CancelledError, "why"):
            await future
        await self.lease.read_into(into)

    async def test_cancelled_has_ended(self):
        for _ in range(20):
            into = bytearray(PAGE)
            task = asyncio.ensure_future(self.read(into))
            for _ in range(random.randrange(4)):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
            into.append(1)

    async def read(self, into):
        await self.lease.read_into(into)

    async def test_cancelled_ones_shift_no_answer(self):
        for i in range(PAGE // 64):
            await self.lease.write(bytes([i % 251]) * 64, i * 64)
        wrong = []

        async def one(i):
            into = bytearray(64)
            try:
                await self.lease.read_into(into, i * 64)
            except asyncio.CancelledError:
                into.append(1)
                raise
            if into != bytes([i % 251]) * 64:
                wrong.append(i)
        for _ in range(10):
            tasks = [asyncio.ensure_future(one(i)) for i in range(PAGE // 64)]
            await asyncio.sleep(0)
            for task in random.sample(tasks, 100):
                task.cancel()
            await asyncio.wait(tasks)
        self.assertEqual(wrong, [])

    async def test_cancelled_batch(self):
        into = [bytearray(64) for _ in range(500)]
        future = self.lease.read_many(into, range(0, 64 * 500, 64))
        future.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await future
        for one in into:
            one.append(1)

    async def test_cancelled_batch_that_is_posted(self):
        into = [bytearray(4096) for _ in range(500)]
        future = self.lease.read_many(into, [0] * 500)
        await asyncio.sleep(0)
        if future.cancel():
            with self.assertRaises(asyncio.CancelledError):
                await future
        for one in into:
            one.append(1)

    async def test_session_is_closed(self):
        futures = [self.lease.read_into(bytearray(PAGE)) for _ in range(300)]
        await asyncio.sleep(0)
        self.session.close()
        ends = await asyncio.gather(*futures, return_exceptions=True)
        self.assertTrue(all(end is None or isinstance(end, rmem.Stale) for end in ends))
        self.assertTrue(any(isinstance(end, rmem.Stale) for end in ends))
        with self.assertRaises(rmem.Stale):
            await self.lease.read_into(bytearray(8))

    async def test_other_thread(self):
        driver = self.lease._driver().driver
        caught = []

        def work():
            try:
                driver.flush()
            except RuntimeError as why:
                caught.append(str(why))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertIn("run_coroutine_threadsafe", caught[0])


class Loops(unittest.TestCase):
    def setUp(self):
        self.session = rmem.open(URI)
        self.addCleanup(self.session.close)
        self.lease = aio.Lease(self.session.alloc(PAGE))

    def test_without_a_loop(self):
        with self.assertRaisesRegex(RuntimeError, "no running event loop"):
            self.lease.read_into(bytearray(8))

    def test_one_after_the_other(self):
        async def main():
            await self.lease.read_into(bytearray(8))
        for _ in range(5):
            asyncio.run(main())
        gc.collect()

    def test_two_in_two_threads(self):
        failures = []

        def work(i):
            async def main():
                data = bytes([i]) * 64
                for _ in range(100):
                    await self.lease.write(data, i * 64)
                    into = bytearray(64)
                    await self.lease.read_into(into, i * 64)
                    if into != data:
                        failures.append(i)
            try:
                asyncio.run(main())
            except Exception as why:  # pylint: disable=broad-except
                failures.append(why)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_closed_with_operations(self):
        into = bytearray(PAGE)

        async def main():
            self.future = self.lease.read_into(into)
            await asyncio.sleep(0)
        asyncio.run(main())
        del self.future
        gc.collect()
        self.session.close()
        into.append(1)
