# SPDX-License-Identifier: BSD-3-Clause
"""Queues."""

import os
import select
import sys
import threading

import rmem
from rmem import READ, WRITE, Op
from stage import PAGE, URI, Case


class Queues(Case):
    def setUp(self):
        super().setUp()
        self.queue = self.session.queue(64)

    def test_interrupt_ends_a_submission(self):
        class Ops(list):
            def __getitem__(self, i):
                if i:
                    raise KeyboardInterrupt
                return super().__getitem__(i)
        ops = Ops([rmem.Op(rmem.WRITE, self.lease, b"x", tag=i) for i in range(2)])
        with self.session.queue() as queue:
            with self.assertRaises(KeyboardInterrupt):
                queue.submit(ops)
            self.assertEqual([one.op.tag for one in queue.wait()], [0])
            self.assertEqual(queue.outstanding, 0)

    def test_numbers_of_more_bits(self):
        for call in (lambda: self.session.queue(1 << 32), lambda: self.queue.poll(1 << 32),
                     lambda: self.queue.wait(1 << 32), lambda: self.queue.wait(-1)):
            with self.assertRaises(OverflowError):
                call()

    def test_operations(self):
        data = os.urandom(64)
        ops = [Op(WRITE, self.lease, data[i:i + 1], i, tag=i) for i in range(64)]
        self.assertEqual(self.queue.submit(ops), 64)
        done = self.queue.wait(64)
        self.assertEqual(len(done), 64)
        self.assertTrue(all(completion.error is None for completion in done))
        self.assertEqual({completion.op.tag for completion in done}, set(range(64)))
        into = bytearray(64)
        self.queue.submit((Op(READ, self.lease, into),))
        self.assertEqual(self.queue.wait()[0].op.memory, data)
        self.assertEqual(self.queue.wait(timeout_ms=0), [])

    def test_full(self):
        ops = [Op(READ, self.lease, bytearray(8))] * 65
        self.assertEqual(self.queue.submit(ops), 64)
        with self.assertRaises(rmem.QueueFull):
            self.queue.submit(ops[:1])
        self.assertEqual(self.queue.outstanding, 64)
        self.queue.wait(64)
        self.assertEqual(self.queue.outstanding, 0)

    def test_memory_is_held(self):
        into = bytearray(PAGE)
        references = sys.getrefcount(into)
        self.queue.submit([Op(READ, self.lease, into)])
        with self.assertRaises(BufferError):
            into.append(1)
        with self.assertRaises(rmem.Busy):
            self.lease.detach()
        completions = self.queue.wait()
        into.append(1)
        del completions
        self.assertEqual(sys.getrefcount(into), references)
        self.queue.submit([Op(READ, self.lease, memoryview(into)[:PAGE])])
        self.queue.close()
        into.append(1)
        self.lease.detach()

    def test_error_of_one(self):
        done = []
        self.queue.submit([Op(READ, self.lease, bytearray(8), offset)
                           for offset in (0, PAGE, 8)])
        while len(done) < 3:
            done += self.queue.wait()
        errors = {completion.op.offset: completion.error for completion in done}
        self.assertEqual((errors[0], errors[8]), (None, None))
        self.assertIsInstance(errors[PAGE], rmem.Invalid)
        self.assertIn("beyond the lease", errors[PAGE].strerror)

    def test_arguments(self):
        into = bytearray(8)
        with rmem.open(URI) as other:
            for ops, error in (
                    ([()], TypeError), ([1], TypeError), (5, TypeError),
                    ([Op(0, self.lease, into)], ValueError),
                    ([Op(READ, self.session, into)], TypeError),
                    ([Op(READ, other.alloc(8), into)], TypeError),
                    ([Op(READ, self.lease, b"")], BufferError),
                    ([Op(READ, self.lease, into, "0")], TypeError)):
                with self.assertRaises(error):
                    self.queue.submit(ops)
        self.assertEqual(self.queue.submit([Op(READ, self.lease, into), ()]), 1)
        with self.assertRaises(ValueError):
            self.session.queue(0)
        self.assertEqual(len(self.queue.wait()), 1)
        self.assertEqual(self.queue.outstanding, 0)
        into.append(0)

    def test_descriptor(self):
        self.assertTrue(self.queue.arm())
        self.queue.submit([Op(READ, self.lease, bytearray(8))])
        done = []
        while not done:
            if self.queue.arm():
                select.select([self.queue], [], [])
            done = self.queue.poll()
        self.assertEqual(len(done), 1)

    def test_cancel(self):
        into = bytearray(PAGE)
        self.queue.submit([Op(READ, self.lease, into)] * 32)
        self.queue.cancel(self.lease)
        done = []
        while self.queue.outstanding:
            done += self.queue.wait()
        self.assertEqual(len(done), 32)
        for completion in done:
            self.assertIsInstance(completion.error, (type(None), rmem.Cancelled))
        into.append(1)

    def test_cancel_of_a_detached_lease(self):
        other = self.session.alloc(4096)
        other.detach()
        self.queue.submit([Op(READ, self.lease, bytearray(PAGE))] * 32)
        self.assertEqual(self.queue.cancel(other), 0)
        self.assertEqual([one.error for one in self.queue.wait(32)], [None] * 32)

    def test_two_threads(self):
        caught, begun = [], threading.Event()

        def work():
            begun.set()
            caught.append(self.queue.wait(2))
        self.queue.submit([Op(READ, self.lease, bytearray(PAGE))])
        thread = threading.Thread(target=work)
        # the other thread has the queue for as long as it waits: which of the two is refused is
        # not known, but one never takes the other's completions
        thread.start()
        begun.wait()
        try:
            mine = self.queue.poll()
        except RuntimeError as why:
            self.assertIn("another thread", str(why))
            mine = []
        thread.join()
        self.assertEqual(len(mine) + sum(len(one) for one in caught), 1)

    def test_session_ends_it(self):
        into = bytearray(PAGE)
        self.queue.submit([Op(READ, self.lease, into)] * 64)
        self.session.close()
        into.append(1)
        with self.assertRaises(rmem.Stale):
            self.queue.poll()
        self.queue.close()
