# SPDX-License-Identifier: BSD-3-Clause
"""asyncio."""

import asyncio
import gc
import os
import random
import struct
import threading
import unittest
import weakref

import rmem
from rmem import aio
from stage import PAGE, URI


class Futures(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.session = rmem.open(URI)
        self.addCleanup(self.session.close)
        self.lease = aio.Lease(self.session.alloc(PAGE))

    async def asyncSetUp(self):
        asyncio.get_running_loop().set_debug(False)  # which is slow

    async def test_operations(self):
        data = os.urandom(4096)
        await self.lease.write(data, 100)
        into = bytearray(4096)
        self.assertIsNone(await self.lease.read_into(into, offset=100))
        self.assertEqual(into, data)

    async def test_what_the_server_does(self):
        await self.lease.fill(0, 4096, 7)
        await self.lease.copy(self.lease, 1000, offset=8192, source_offset=96)
        into = bytearray(1001)
        await self.lease.read_into(into, 8192)
        self.assertEqual(into, bytes([7] * 1000 + [0]))
        self.assertEqual(await self.lease.crc32c(0, 4096), self.lease.sync.crc32c(0, 4096))
        with self.assertRaises(rmem.Invalid):
            await self.lease.fill(PAGE, 1)
        with self.assertRaises(struct.error):
            self.lease.fill(0, 1, 256)
        with self.assertRaises(AttributeError):
            self.lease.copy(None, 1)

    async def test_numbers_of_more_bits(self):
        much, session = 1 << 64, aio.Session(self.session)
        for call in (lambda: session.alloc(much + PAGE), lambda: session.alloc(PAGE, ttl_ms=much),
                     lambda: session.alloc(PAGE, align=much), lambda: self.lease.grow(much + PAGE),
                     lambda: self.lease.renew(much), lambda: self.lease.fill(much, 8),
                     lambda: self.lease.fill(0, much + 8), lambda: self.lease.crc32c(0, much),
                     lambda: self.lease.copy(self.lease, much),
                     lambda: self.lease.fetch_add(much, 1),
                     lambda: self.lease.write_notify(b"", much)):
            with self.assertRaises(OverflowError):
                await call()

    async def test_atomics(self):
        self.assertEqual(await self.lease.fetch_add(8, 5), 0)
        self.assertEqual(await self.lease.compare_swap(8, 5, 2**64 - 1), 5)
        self.assertEqual(await self.lease.compare_swap(8, 5, 1), 2**64 - 1)
        self.assertEqual(await self.lease.fetch_add(8, 2), 2**64 - 1)
        self.assertEqual(await self.lease.fetch_add(8, 0), 1)
        with self.assertRaises(rmem.Invalid):
            await self.lease.fetch_add(4, 1)
        future = self.lease.fetch_add(8, 1)
        future.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await future

    async def test_source_of_a_copy_is_held(self):
        source = aio.Lease(self.session.alloc(4096))
        await source.write(b"source")
        future = self.lease.copy(source, 6)
        with self.assertRaises(rmem.Busy):
            source.sync.detach()
        await future
        await source.detach()
        with self.assertRaises(rmem.Stale):
            self.lease.copy(source, 6)
        with rmem.open(URI) as other, self.assertRaises(TypeError):
            self.lease.copy(aio.Lease(other.alloc(4096)), 6)
        into = bytearray(6)
        await self.lease.read_into(into)
        self.assertEqual(into, b"source")

    async def test_notified(self):
        with rmem.open(URI) as other:
            named = aio.Lease(self.session.alloc(4096, name="watched"))
            watching = other.attach("watched")
            watching.watch()
            await named.write_notify(b"new", 8, 42)
            notice, = other.notified(timeout_ms=10000)
            self.assertEqual((notice.lease, notice.value), (watching, 42))
            into = bytearray(3)
            watching.read_into(into, 8)
            self.assertEqual(into, b"new")
        await named.destroy()

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
        with self.assertRaisesRegex(TypeError, "neither the buffer protocol"):
            await self.lease.read_into(None)
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

    async def test_cancelled_on_the_wire(self):
        self.addCleanup(setattr, aio, "_CANCEL_SECONDS", aio._CANCEL_SECONDS)
        aio._CANCEL_SECONDS = 0
        data = os.urandom(PAGE)
        await self.lease.write(data)
        cancelled = 0
        for _ in range(5):
            into = [bytearray(PAGE) for _ in range(100)]
            futures = [self.lease.read_into(one) for one in into]
            await asyncio.sleep(0)
            for future in random.sample(futures, 10):
                future.cancel()
            await asyncio.wait(futures)
            for future, one in zip(futures, into):
                one.append(1)
                cancelled += future.cancelled()
                if not future.cancelled():
                    self.assertEqual(one[:-1], data)
        self.assertGreater(cancelled, 0)

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

    async def test_session_is_closed_before_there_is_a_queue(self):
        into = bytearray(8)
        future = self.lease.read_into(into)
        self.session.close()
        into.append(1)
        with self.assertRaises(rmem.Stale):
            await future

    async def test_session_is_closed_while_a_queue_is_made(self):
        for turns in range(40):
            with rmem.open(URI, timeout=3600) as session:
                future = aio.Lease(session.alloc(8)).read_into(bytearray(8))
                for _ in range(turns % 8):
                    await asyncio.sleep(0.0001)
            await asyncio.gather(future, return_exceptions=True)

    async def test_tenant_may_have_no_more_channels(self):
        queues = []
        with self.assertRaises(rmem.Quota):
            while True:
                queues.append(self.session.queue(1))
        into = bytearray(8)
        with self.assertRaises(rmem.Quota):
            await self.lease.read_into(into)
        into.append(1)
        for queue in queues:
            queue.close()
        await self.lease.read_into(into)

    async def test_other_thread(self):
        driver = self.lease._driver()
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


class Calls(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        asyncio.get_running_loop().set_debug(False)  # which is slow
        self.session = await aio.open(URI)
        self.addAsyncCleanup(self.session.close)

    async def test_leases(self):
        async with await self.session.alloc(PAGE, name="aio/one") as lease:
            with self.assertRaises(rmem.Exists):
                await self.session.alloc(PAGE, name="aio/one")
            self.assertEqual((lease.bytes, lease.name, lease.ended), (PAGE, "aio/one", False))
            await lease.grow(2 * PAGE)
            self.assertEqual(lease.bytes, 2 * PAGE)
            await lease.shrink(PAGE)
            await lease.renew(60000)
            await lease.keep(60000)
            await lease.watch()
            await lease.unwatch()
            await lease.rename("aio/two")
            self.assertEqual((await self.session.stat("aio/two")).id, lease.id)
            self.assertEqual([one.name for one in await self.session.list("aio/")], ["aio/two"])
            other = await self.session.attach("aio/two")
            self.assertEqual(other.id, lease.id)
            await other.detach()
        self.assertTrue(lease.ended)
        with self.assertRaises(rmem.Stale):
            await lease.renew(1)
        await self.session.remove("aio/two")
        with self.assertRaises(FileNotFoundError):
            await self.session.attach("aio/two")

    async def test_bytes_and_calls(self):
        lease = await self.session.alloc(PAGE)
        await lease.write(b"both")
        into = bytearray(4)
        lease.sync.read_into(into)
        self.assertEqual(into, b"both")
        self.assertGreater(await self.session.ping(), 0)
        future = lease.read_into(into)
        with self.assertRaises(rmem.Busy):
            await lease.detach()
        await future
        await lease.destroy()

    async def test_many_at_once(self):
        names = [f"aio/{i}" for i in range(300)]
        await asyncio.gather(*(self.session.alloc(4096, name=name) for name in names))
        self.assertEqual(len(await self.session.list("aio/")), 300)
        async with await aio.open(URI) as other:
            leases = await other.attach_many(names + ["none"])
            self.assertIsInstance(leases.pop(), rmem.NotFound)
            self.assertEqual([lease.name for lease in leases], names)
        await asyncio.gather(*(self.session.remove(name) for name in names))

    async def test_cancelled(self):
        before = len(self.session.sync.list())
        for wait in range(4):
            calls = [asyncio.ensure_future(self.alloc(f"aio/{i}")) for i in range(50)]
            for _ in range(wait):
                await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            ends = await asyncio.gather(*calls, return_exceptions=True)
            for end in ends:
                if isinstance(end, aio.Lease):
                    await end.destroy()
            # what is granted too late is given back: the rest are those that were granted
            while stats := await self.session.list("aio/"):
                for stat in stats:
                    try:
                        await self.session.remove(stat.name)
                    except rmem.NotFound:
                        pass
        await self.session.ping()
        self.assertEqual(len(self.session.sync.list()), before)

    async def alloc(self, name):
        return await self.session.alloc(4096, name=name)

    async def test_cancelled_detach_can_be_repeated(self):
        lease = await self.session.alloc(4096)
        call = lease.detach()
        call.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await call
        await lease.detach()
        self.assertTrue(lease.ended)

    async def test_open_fails(self):
        with self.assertRaises(ConnectionRefusedError):
            await aio.open("rmem://127.0.0.1:1?fabric=tcp")
        with self.assertRaises(ValueError):
            await aio.open("rmem://127.0.0.1?fabric=none")

    async def test_closed(self):
        async with await aio.open(URI) as session:
            lease = await session.alloc(PAGE)
            futures = [lease.read_into(bytearray(PAGE)) for _ in range(300)]
            await asyncio.sleep(0)
        for end in await asyncio.gather(*futures, return_exceptions=True):
            self.assertTrue(end is None or isinstance(end, rmem.Stale), end)
        self.assertTrue(session.closed)
        await session.close()
        for call in (session.ping, lambda: session.alloc(1), lambda: lease.renew(1)):
            with self.assertRaisesRegex(rmem.Stale, "closed"):
                await call()

    async def test_closed_by_another_thread(self):
        session = await aio.open(URI)
        call = session.ping()
        with self.assertRaisesRegex(rmem.Busy, "event loop"):
            await asyncio.to_thread(session.sync.close)
        await call
        await asyncio.to_thread(session.sync.close)
        self.assertTrue(session.closed)

    async def test_arguments(self):
        for name in (1, b"name"):
            with self.assertRaises(TypeError):
                await self.session.attach(name)
        with self.assertRaises(ValueError):
            await self.session.attach("a\0b")
        with self.assertRaises(rmem.Invalid):
            await self.session.attach("")


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
        with self.assertRaises(BufferError):
            into.append(1)

        async def other():
            await self.lease.read_into(bytearray(8))
        asyncio.run(other())
        into.append(1)

    def test_closed_sessions_are_forgotten(self):
        async def main():
            sessions = []
            for _ in range(5):
                async with await aio.open(URI) as session:
                    await (await session.alloc(8)).write(b"x")
                    sessions.append(weakref.ref(session.sync))
            del session
            await self.lease.write(b"x")
            gc.collect()
            return sum(session() is not None for session in sessions)
        self.assertEqual(asyncio.run(main()), 0)
