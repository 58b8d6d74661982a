# SPDX-License-Identifier: BSD-3-Clause
"""No call leaves objects, descriptors or memory behind."""

import asyncio
import gc
import os
import sys

import rmem
from rmem import aio
from stage import PAGE, URI, Case


def blocks():
    gc.collect()
    return sys.getallocatedblocks()


def descriptors():
    return len(os.listdir("/proc/self/fd"))


class Leaks(Case):
    N = 300

    def kept(self, function):
        """Fewer blocks stay than the function is called: of three rounds, in the one that keeps the
        fewest, as the interpreter's own stores grow at times."""
        kept = []
        for _ in range(3):
            before = blocks()
            for _ in range(self.N):
                function()
            kept.append(blocks() - before)
        self.assertLess(min(kept), self.N // 2, function)

    def refused(self, call, *args):
        with self.assertRaises((OSError, TypeError, ValueError, BufferError)):
            call(*args)

    def test_calls(self):
        into = bytearray(64)
        for function in (
                lambda: self.lease.read_into(into), lambda: self.lease.write(b"x", 8),
                lambda: self.lease.write_many([b"x", b"y"], [0, 1]),
                lambda: self.lease.read_many(into, [0, 32]),
                lambda: self.session.alloc(4096).destroy(),
                lambda: self.session.buffer(4096).close(),
                lambda: self.session.buffer(4096).__dlpack__(),
                lambda: self.session.list(), lambda: self.session.info, self.session.ping,
                lambda: self.session.notified(timeout_ms=0)):
            self.kept(function)

    def test_failures(self):
        into = bytearray(64)
        for call, *args in (
                (self.lease.read_into, into, PAGE), (self.lease.read_into, b"x"),
                (self.lease.read_into, into, "0"), (self.lease.write_many, [b"x"], [PAGE]),
                (self.lease.write_many, [b"x", 1], [0, 0]), (self.session.attach, "none"),
                (self.session.register, 1), (self.session.buffer, 0)):
            self.kept(lambda call=call, args=args: self.refused(call, *args))

    def test_queue(self):
        ops = [rmem.Op(rmem.READ, self.lease, bytearray(8), offset) for offset in (0, PAGE)]
        with self.session.queue() as queue:
            def work():
                queue.submit(ops)
                while queue.outstanding:
                    queue.wait()
            self.kept(work)

    def test_sessions(self):
        def work():
            with rmem.open(URI) as session:
                session.alloc(4096).write(b"x")
                session.queue(4)
        work()
        before, had = blocks(), descriptors()
        for _ in range(20):
            work()
        self.assertLess(blocks() - before, 20)
        self.assertEqual(descriptors(), had)

    def test_asyncio(self):
        async def main():
            async with await aio.open(URI) as session:
                lease = await session.alloc(PAGE)

                async def work():
                    into = bytearray(8)
                    await lease.read_into(into)
                    await lease.write_many([b"x", b"y"], [0, 1])
                    cancelled = lease.read_into(into)
                    cancelled.cancel()
                    await asyncio.wait([cancelled])
                    await (await session.alloc(4096)).detach()
                    try:
                        await lease.read_into(into, PAGE)
                    except rmem.Invalid:
                        pass
                for _ in range(self.N):
                    await work()
                before = blocks()
                for _ in range(10 * self.N):  # asyncio itself keeps up to 300 now and then
                    await work()
                self.assertLess(blocks() - before, 5 * self.N)
        had = descriptors()
        asyncio.run(main())
        gc.collect()
        self.assertLessEqual(descriptors(), had)

    def test_cache(self):
        with rmem.Cache(URI, "python-leaks", bytes=8 << 20) as cache:
            into = bytearray(8)
            for function in (
                    lambda: cache.put("key", b"value"), lambda: cache.get("key", into),
                    lambda: cache.get_many(["key", "none"], [into, bytearray(1)]),
                    lambda: cache.exists("none"), lambda: self.refused(cache.get, "", into),
                    lambda: self.refused(cache.get_many, ["a", "b"], [into, b"x"]),
                    lambda: cache.load("key"), cache.list, cache.stat):
                self.kept(function)
