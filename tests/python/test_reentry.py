# SPDX-License-Identifier: BSD-3-Clause
"""Python code that runs within calls: conversions, destructors, handlers of signals."""

import gc
import signal
import time
import weakref

import rmem
from rmem import _rmem, aio
from stage import PAGE, URI, Case


class Number:
    """Calls a function when it is converted."""

    def __init__(self, function):
        self.function = function

    def __index__(self):
        self.function()
        return 0


class Tensor:
    """Calls a function when its memory is taken."""

    def __init__(self, function, buffer):
        self.function, self.buffer = function, buffer

    def __dlpack__(self, **_):
        self.function()
        return self.buffer.__dlpack__()


class Loop:
    """Keeps what it is to call."""

    def __init__(self):
        self.calls = []

    def call_soon(self, *call):
        self.calls.append(call)

    def call_soon_threadsafe(self, *call):
        self.calls.append(call)


class Reentry(Case):
    def test_objects_end_while_an_exception_is_on_its_way(self):
        def queue():
            queue = self.session.queue()
            queue.submit([rmem.Op(rmem.READ, self.lease, bytearray(PAGE))] * 8)
            return queue

        def client():
            return _rmem.cache((URI,), "reentry", 0, 0, 8 << 20, 0, 0, 10000, None, None)
        for make in (lambda: self.session.alloc(8), lambda: self.session.attach("none"), queue,
                     lambda: self.session.buffer(8), lambda: self.session.buffer(8).__dlpack__(),
                     lambda: rmem.open(URI), lambda: _rmem.Driver(self.session, Loop()),
                     lambda: aio.Lease(self.lease), _rmem.calls, client):
            with self.assertRaises((ZeroDivisionError, rmem.NotFound)):
                print(make(), 1 / 0)

    def test_session_is_closed_in_its_call(self):
        closing = Number(self.session.close)
        with self.session.queue() as queue:
            for call in (lambda: self.lease.read_many([bytearray(8)], [closing]),
                         lambda: queue.submit([rmem.Op(rmem.READ, self.lease, bytearray(8),
                                                       closing)])):
                with self.assertRaisesRegex(rmem.Busy, "this thread"):
                    call()
        self.session.ping()
        with self.assertRaisesRegex(rmem.Stale, "closed"):
            self.lease.read_into(bytearray(8), closing)

    def in_a_batch(self, function):
        """Call it in the handler of a signal that interrupts a batch."""
        ended = []

        def handle(*_):
            try:
                function()
            except Exception as why:  # pylint: disable=broad-except
                ended.append(why)
            else:
                ended.append(None)
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, handle))
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        into, end = bytearray(PAGE * 100), time.monotonic() + 60
        for wait in range(1, 100):
            del ended[:]
            signal.setitimer(signal.ITIMER_REAL, wait / 1000)
            while not ended and time.monotonic() < end:
                self.lease.read_many(into, [0] * 100)
            if ended[0]:  # else it was not in the call
                return ended[0]
        return None

    def test_signal_closes_the_session(self):
        with rmem.open(URI) as session:
            self.lease, self.session = session.alloc(PAGE), session
            lease = self.lease

            def close():
                if not session.closed:
                    session.close()
            try:
                why = self.in_a_batch(close)
            except rmem.Stale:  # between two calls
                return
            self.assertIsInstance(why, rmem.Busy)
            lease.write(b"x")

    def test_signal_begins_a_batch(self):
        why = self.in_a_batch(lambda: self.lease.read_many([bytearray(8)], [0]))
        self.assertIsInstance(why, rmem.Busy)
        self.lease.read_many([bytearray(8)], [0])

    def test_memory_ends_a_driver(self):
        loop = Loop()
        driver = _rmem.Driver(self.session, loop)
        tensor = Tensor(driver.close, self.session.buffer(8))
        with self.assertRaisesRegex(rmem.Stale, "closed"):
            driver.begin_many(rmem.READ, self.lease, [bytearray(8), tensor], [0, 0])
        self.assertEqual(len(loop.calls), 2)
        loop.calls.pop(0)[0]()  # flush()
        end, why = loop.calls.pop()
        end(why)

    def test_memory_fills_a_driver(self):
        loop, view = Loop(), memoryview(bytearray(8))
        driver = _rmem.Driver(self.session, loop)
        begun = []

        def fill():
            with self.assertRaises(rmem.QueueFull):
                while True:
                    begun.append(driver.begin_many(rmem.READ, self.lease, [view] * 64, [0] * 64))
        buffer = self.session.buffer(8)
        with self.assertRaises(rmem.QueueFull):
            driver.begin_many(rmem.READ, self.lease, [Tensor(fill, buffer)], [0])
        self.assertEqual(buffer.exports, 0)
        driver.close()
        for end, why in loop.calls[1:]:
            end(why)
        self.assertEqual(len(begun), 1024)
        self.assertTrue(all(one.done() for one in begun))
        self.assertIsInstance(begun[0].exception(), rmem.Stale)
        for one in begun:
            one.exception()

    def test_cycles_are_collected(self):
        class Memory(bytearray):
            pass

        class Tag:
            pass
        tag, memory, cached = Tag(), Memory(8), Tag()
        tag.queue = self.session.queue()
        tag.queue.submit([rmem.Op(rmem.READ, self.lease, bytearray(PAGE), 0, tag)] * 8)
        memory.buffer = self.session.register(memory)
        cached.cache = rmem.Cache(URI, "reentry", bytes=8 << 20)
        cached.cache.submit(rmem.PUT, ["key"], [bytearray(2 << 20)], tag=cached)
        gone = [weakref.ref(one) for one in (tag, tag.queue, memory.buffer, cached)]
        del tag, memory, cached
        gc.collect()
        self.assertEqual([one() for one in gone], [None] * 4)
        self.assertEqual(self.session.counters["registered_bytes"], 0)
        self.lease.detach()


class Caches(Case):
    def setUp(self):
        super().setUp()
        self.cache = rmem.Cache(URI, "reentry", bytes=8 << 20)
        self.addCleanup(self.cache.close)

    def test_cache_is_closed_in_its_call(self):
        class Keys:
            def __iter__(_):  # pylint: disable=no-self-argument
                self.cache.close()
                return iter(["key"])
        with self.assertRaisesRegex(rmem.Busy, "this thread"):
            self.cache.exists_many(Keys())
        self.assertIsNone(self.cache.exists("none"))

    def test_memory_that_uses_the_cache_when_it_ends(self):
        ended = []

        class Memory(bytearray):
            def __del__(_):  # pylint: disable=no-self-argument
                try:
                    ended.append(self.cache.exists("none"))
                except rmem.Busy as why:
                    ended.append(why)
        for _ in range(10):
            self.cache.submit(rmem.PUT, ["key"], [Memory(8)], tag=1)
            while not self.cache.poll():
                pass
            self.assertTrue(ended)
            del ended[:]
        self.assertEqual(self.cache.exists("key"), 8)

    def test_key_that_looks_at_the_cache_when_it_ends(self):
        client, seen = self.cache._cache, []

        class Key(str):
            def __del__(_):  # pylint: disable=no-self-argument
                seen.append(len(gc.get_referents(client)))
        self.cache.submit(rmem.PUT, [Key("key")], [bytearray(2 << 20)], tag=1)
        self.cache.close()
        self.assertEqual(seen, [1])  # its type
