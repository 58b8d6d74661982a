# SPDX-License-Identifier: BSD-3-Clause
"""A script of all calls of asyncio is cancelled at each await: what it used is free, and every
later answer is right."""

import asyncio
import inspect
import threading
import types
import unittest

import rmem
from rmem import aio
from stage import PAGE, URI

try:
    import uvloop
except ImportError:
    uvloop = None


@types.coroutine
def watched(coroutine, waits):
    """The coroutine, which calls a function at each await that waits."""
    step, value = coroutine.send, None
    while True:
        try:
            future = step(value)
        except StopIteration as end:
            return end.value
        waits()
        try:
            value = yield future
            step = coroutine.send
        except BaseException as why:  # pylint: disable=broad-except
            step, value = coroutine.throw, why


class Script:
    """What is cancelled."""

    def __init__(self, prefix, cache):
        self.prefix, self.cache = prefix, cache
        self.memories = []

    def memory(self, n=64):
        self.memories.append(bytearray(n))
        return self.memories[-1]

    async def run(self):
        async with await aio.open(URI) as session:
            await session.ping()
            async with await session.alloc(PAGE, name=self.prefix + "a") as lease:
                await self.bytes(lease)
                await self.calls(session, lease)
            await session.remove(self.prefix + "b")
            await (await session.alloc(PAGE)).destroy()
        await self.keys()

    async def bytes(self, lease):
        await lease.write(self.memory())
        await lease.read_into(self.memory(PAGE))
        await lease.write_many([self.memory() for _ in range(300)], range(0, 300 * 64, 64))
        await lease.read_many([self.memory() for _ in range(300)], range(0, 300 * 64, 64))
        await lease.fill(0, 64)
        await lease.copy(lease, 64, 64, 0)
        await lease.crc32c(0, 64)
        await lease.compare_swap(0, 0, 1)
        await lease.fetch_add(0, 1)
        await lease.watch()
        await lease.write_notify(self.memory(), 0, 7)

    async def calls(self, session, lease):
        await lease.unwatch()
        await lease.grow(2 * PAGE)
        await lease.shrink(PAGE)
        await lease.renew(60000)
        await lease.keep(60000)
        for call in (lease.share, lease.unshare):
            try:
                await call("nobody")
            except rmem.Error:
                pass
        await lease.rename(self.prefix + "b")
        await session.stat(self.prefix + "b")
        await session.list(self.prefix)
        for other in await session.attach_many([self.prefix + "b"] * 3):
            await other.detach()
        async with await session.attach(self.prefix + "b", write=True) as other:
            await other.watch()
            await other.write_notify(self.memory(), 0, 7)
            await session.notified()

    async def keys(self):
        key = self.prefix + "key"
        await self.cache.put(key, self.memory())
        await self.cache.get(key, self.memory())
        await self.cache.exists(key)
        await self.cache.put_many([key] * 100, [self.memory() for _ in range(100)])
        await self.cache.get_many([key] * 100, [self.memory() for _ in range(100)])
        await self.cache.exists_many([key, "none"])
        await self.cache.delete_many([key, "none"])
        await self.cache.delete(key)


async def is_right(session, lease, cache, i):
    """Answers of calls that are made after the cancelled one."""
    data = [bytes([(i + j) % 251]) * 64 for j in range(50)]
    await asyncio.gather(*(lease.write(one, 64 * j) for j, one in enumerate(data)))
    into = [bytearray(64) for _ in data]
    await asyncio.gather(*(lease.read_into(one, 64 * j) for j, one in enumerate(into)))
    assert into == data
    lengths = [j % 10 + 1 for j in range(20)]
    await cache.put_many([f"{lease.id}/{j}" for j in range(20)], [bytes(one) for one in lengths])
    assert await cache.exists_many([f"{lease.id}/{j}" for j in range(20)]) == lengths
    ping, stat, crc = await asyncio.gather(session.ping(), session.stat(lease.name),
                                           lease.crc32c(0, 64))
    assert ping > 0 and stat.id == lease.id and stat.bytes == PAGE
    assert crc == await asyncio.to_thread(lease.sync.crc32c, 0, 64)


async def cancel_everywhere(prefix, sync):
    """Returns the number of awaits."""
    asyncio.get_running_loop().set_debug(False)  # which is slow
    cache = aio.Cache(sync)
    async with await aio.open(URI) as session:
        lease = await session.alloc(PAGE, name=prefix + "kept")
        at = 0
        while True:
            at += 1
            left = [at]
            script = Script(f"{prefix}{at}/", cache)

            def waits(left=left):
                left[0] -= 1
                if left[0] == 0:
                    asyncio.get_running_loop().call_soon(task.cancel)
            task = asyncio.ensure_future(watched(script.run(), waits))
            try:
                await task
                ended = True
            except asyncio.CancelledError:
                ended = False
            for memory in script.memories:
                memory.append(0)  # BufferError if it was not free
            await is_right(session, lease, cache, at)
            for stat in await session.list(script.prefix):
                await session.remove(stat.name)
            if ended and left[0] > 0:
                break
        await lease.detach()
        await session.remove(prefix + "kept")
    return at - 1


FACTORIES = [asyncio.new_event_loop] + ([uvloop.new_event_loop] if uvloop else [])


class Cancel(unittest.TestCase):
    def one_loop(self, factory, prefix):
        with rmem.Cache(URI, "cancel", bytes=8 << 20) as cache:
            with asyncio.Runner(loop_factory=factory) as runner:
                self.assertGreater(runner.run(cancel_everywhere(prefix, cache)), 40)

    def test_script_has_all_calls(self):
        text = inspect.getsource(Script)
        for kind in (aio.Session, aio.Lease, aio.Cache):
            for name, member in vars(kind).items():
                if inspect.isfunction(member) and name[0] != "_" and (kind, name) not in (
                        (aio.Session, "close"), (aio.Cache, "close"), (aio.Cache, "stat")):
                    self.assertTrue(f".{name}(" in text or f".{name}," in text or
                                    f".{name})" in text, (kind, name))

    def test_each_await(self):
        for factory in FACTORIES:
            with self.subTest(factory.__module__):
                self.one_loop(factory, "cancel/")

    def test_two_loops_in_two_threads(self):
        for factory in FACTORIES:
            failures = []

            def work(i, factory=factory, failures=failures):
                try:
                    self.one_loop(factory, f"cancel/{i}/")
                except BaseException as why:  # pylint: disable=broad-except
                    failures.append(why)
            threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])

    def test_calls_after_the_loop_is_closed(self):
        async def main(session):
            lease = aio.Lease(session.alloc(PAGE))
            await lease.write(b"x")
            await aio.Session(session).ping()
            return lease, lease._driver(), aio._hub().calls
        for factory in FACTORIES:
            with rmem.open(URI) as session:
                runner = asyncio.Runner(loop_factory=factory)
                lease, driver, calls = runner.run(main(session))
                loop = runner.get_loop()
                runner.close()
                for call in (lambda: lease.read_into(bytearray(8)),
                             lambda: aio.Session(session).ping(),
                             lambda: driver.begin_many(rmem.READ, lease.sync, [bytearray(8)], [0]),
                             lambda: calls.begin(None, 1, session)):
                    with self.assertRaisesRegex(RuntimeError, "no running|closed"):
                        call()
                self.assertTrue(loop.is_closed())
                lease.sync.read_into(bytearray(8))
