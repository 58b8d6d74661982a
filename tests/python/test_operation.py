# SPDX-License-Identifier: BSD-3-Clause
"""What operations are awaited by: a future, to asyncio and uvloop."""

import asyncio
import contextvars
import gc
import unittest
import weakref

import rmem
from rmem import aio
from stage import PAGE, URI

try:
    import uvloop
except ImportError:
    uvloop = None


class Protocol(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.session = rmem.open(URI)
        self.addCleanup(self.session.close)
        self.lease = aio.Lease(self.session.alloc(PAGE))

    async def asyncSetUp(self):
        asyncio.get_running_loop().set_debug(False)  # which is slow

    def read(self, memory=None, offset=0):
        return self.lease.read_into(bytearray(8) if memory is None else memory, offset)

    def slow(self):
        """Operations that take some turns of the loop."""
        return self.lease.read_many([bytearray(PAGE) for _ in range(200)], [0] * 200)

    async def test_gather(self):
        self.assertEqual(await asyncio.gather(self.read(), self.lease.fetch_add(0, 2),
                                              self.lease.fetch_add(0, 2)), [None, 0, 2])
        ends = await asyncio.gather(self.read(), self.read(offset=PAGE), return_exceptions=True)
        self.assertIsNone(ends[0])
        self.assertIsInstance(ends[1], rmem.Invalid)
        with self.assertRaises(rmem.Invalid):
            await asyncio.gather(self.read(), self.read(offset=PAGE))
        cancelled = self.read()
        cancelled.cancel("why")
        end, = await asyncio.gather(cancelled, return_exceptions=True)
        self.assertIsInstance(end, asyncio.CancelledError)
        self.assertEqual(end.args, ("why",))
        both = asyncio.gather(self.slow(), self.slow())
        both.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await both

    async def test_wait(self):
        operations = {self.read() for _ in range(3)} | {self.slow()}
        done, pending = await asyncio.wait(operations, return_when=asyncio.FIRST_COMPLETED)
        self.assertTrue(done)
        self.assertEqual(done | pending, operations)
        if pending:
            await asyncio.wait(pending)
        for one in asyncio.as_completed([self.read(), self.read()]):
            self.assertIsNone(await one)
        self.assertTrue(all(one.done() and not one.cancelled() for one in operations))

    async def test_wait_for(self):
        self.assertIsNone(await asyncio.wait_for(self.read(), 60))
        self.assertEqual(await asyncio.wait_for(self.lease.fetch_add(0, 1), None), 0)
        operation = self.slow()
        with self.assertRaises(TimeoutError):
            await asyncio.wait_for(operation, 0)
        self.assertTrue(operation.cancelled())

    async def test_shield(self):
        into = bytearray(PAGE)
        operation = self.read(into)
        outer = asyncio.shield(operation)
        outer.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await outer
        self.assertIsNone(await operation)
        into.append(1)

    async def test_task_group(self):
        into = [bytearray(8) for _ in range(100)]
        async with asyncio.TaskGroup() as group:
            for one in into:
                group.create_task(self.task(self.lease.read_into, one))
        with self.assertRaises(ExceptionGroup) as raised:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.task(self.slow)) for _ in range(3)]
                group.create_task(self.task(self.read, None, PAGE))
        self.assertIsInstance(raised.exception.exceptions[0], rmem.Invalid)
        self.assertTrue(all(task.done() for task in tasks))
        for one in into:
            one.append(1)

    async def task(self, function, *args):
        return await function(*args)

    async def test_two_tasks_await_one(self):
        operation = self.lease.fetch_add(0, 5)

        async def wait():
            return await operation
        self.assertEqual(await asyncio.gather(wait(), wait(), operation), [0, 0, 0])
        self.assertEqual([await operation, operation.result()], [0, 0])

    async def test_states(self):
        operation = self.read()
        self.assertTrue(asyncio.isfuture(operation))
        self.assertFalse(asyncio.iscoroutine(operation))
        self.assertIs(asyncio.ensure_future(operation), operation)
        self.assertIs(operation.get_loop(), asyncio.get_running_loop())
        self.assertFalse(operation.done())
        for call in (operation.result, operation.exception):
            with self.assertRaisesRegex(asyncio.InvalidStateError, "not set"):
                call()
        await operation
        self.assertTrue(operation.done())
        self.assertFalse(operation.cancelled())
        self.assertFalse(operation.cancel())
        self.assertEqual((operation.result(), operation.exception()), (None, None))
        operation = self.read(offset=PAGE)
        await asyncio.wait([operation])
        self.assertIsInstance(operation.exception(), rmem.Invalid)
        for _ in range(2):
            try:
                operation.result()
            except rmem.Invalid as why:
                self.assertIsNone(why.__traceback__.tb_next)
            else:
                self.fail("no error")
        operation = self.read()
        self.assertTrue(operation.cancel(msg="first"))
        self.assertTrue(operation.cancel("second"))
        await asyncio.wait([operation])
        for call in (operation.result, operation.exception):
            with self.assertRaisesRegex(asyncio.CancelledError, "first"):
                call()
        with self.assertRaisesRegex(TypeError, "parameter"):
            operation.cancel(message="")

    async def test_iterated_by_hand(self):
        operation = self.read()
        steps = operation.__await__()
        self.assertIs(next(steps), operation)
        self.assertTrue(operation._asyncio_future_blocking)
        with self.assertRaisesRegex(RuntimeError, "await wasn't used"):
            next(steps)
        operation._asyncio_future_blocking = False
        await operation
        with self.assertRaises(StopIteration) as end:
            next(iter(operation))
        self.assertIsNone(end.exception.value)
        number = self.lease.fetch_add(0, 1)
        await number
        with self.assertRaises(StopIteration) as end:
            next(number)
        self.assertEqual(end.exception.value, 0)

    async def test_callbacks(self):
        variable, seen = contextvars.ContextVar("variable"), []

        def note(operation):
            seen.append((operation, variable.get(None)))

        def never(_):
            seen.append(None)
        operation = self.read()
        context = contextvars.copy_context()
        context.run(variable.set, 1)
        variable.set(2)
        operation.add_done_callback(note, context=context)
        operation.add_done_callback(note)
        operation.add_done_callback(never)
        operation.add_done_callback(never)
        variable.set(3)
        self.assertEqual(operation.remove_done_callback(never), 2)
        self.assertEqual(operation.remove_done_callback(never), 0)
        await operation
        await asyncio.sleep(0)
        operation.add_done_callback(note)
        self.assertEqual(operation.remove_done_callback(note), 0)
        self.assertEqual(seen, [(operation, 1), (operation, 2)])
        await asyncio.sleep(0)
        self.assertEqual(seen.pop(), (operation, 3))

    async def test_error_that_nobody_sees_is_reported(self):
        reports = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: reports.append(what))
        for see in (False, True):
            operation = self.read(offset=PAGE)
            while not operation.done():
                await asyncio.sleep(0)
            if see:
                operation.exception()
            del operation
        report, = reports
        self.assertIn("never retrieved", report["message"])
        self.assertIsInstance(report["exception"], rmem.Invalid)

    async def test_cycles_are_collected(self):
        class Memory(bytearray):
            pass
        memory = Memory(8)
        memory.operation = self.read(memory)
        memory.operation.add_done_callback(lambda _, memory=memory: None)
        await memory.operation
        await asyncio.sleep(0)  # the handle of this task's step has it
        gone = weakref.ref(memory), weakref.ref(memory.operation)
        del memory
        gc.collect()
        self.assertEqual([one() for one in gone], [None, None])

    async def test_batches_take_what_has_items(self):
        into = [bytearray(8) for _ in range(3)]
        await self.lease.write_many((b"a", b"b", b"c"), iter([0, 1, 2]))
        await self.lease.read_many(tuple(into), range(3))
        self.assertEqual([bytes(one[:1]) for one in into], [b"a", b"b", b"c"])
        with self.assertRaises(ValueError):
            self.lease.read_many(into, [0])
        with self.assertRaises(TypeError):
            self.lease.read_many(into, [0, "1", 2])
        for one in into:
            one.append(1)  # nothing is held


@unittest.skipUnless(uvloop, "uvloop is not installed")
class UnderUvloop(Protocol):
    def setUp(self):
        self.loop_factory = uvloop.new_event_loop  # 3.13
        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
        self.addCleanup(asyncio.set_event_loop_policy, None)
        super().setUp()
