# SPDX-License-Identifier: BSD-3-Clause
"""Batches of synchronous calls."""

import array
import os
import signal
import threading
import time

import rmem
from stage import PAGE, Case


class Batches(Case):
    def test_list_of_memories(self):
        data = [os.urandom(1 + i) for i in range(64)]
        offsets = [i * 64 for i in range(64)]
        self.lease.write_many(data, offsets)
        into = [bytearray(1 + i) for i in range(64)]
        self.lease.read_many(into, tuple(offsets))
        self.assertEqual([bytes(one) for one in into], data)

    def test_one_memory(self):
        data = os.urandom(PAGE)
        offsets = array.array("q", range(PAGE - 4096, -1, -4096))
        self.lease.write_many(data, offsets)
        into = bytearray(PAGE)
        self.lease.read_many(into, offsets=memoryview(offsets))
        self.assertEqual(bytes(into), data)
        whole = bytearray(PAGE)
        self.lease.read_into(whole)
        self.assertEqual(bytes(whole[:4096]), data[-4096:])
        self.lease.read_many(into, [0, 8192], bytes=16)
        self.assertEqual(into[:32], whole[:16] + whole[8192:8208])

    def test_deeper_than_the_queue(self):
        n = 5000
        data = os.urandom(8 * n)
        self.lease.write_many(data, range(0, 8 * n, 8))
        into = bytearray(8 * n)
        self.lease.read_many(into, range(0, 8 * n, 8))
        self.assertEqual(bytes(into), data)

    def test_none(self):
        self.lease.read_many([], [])
        self.lease.read_many(bytearray(), [])

    def test_arguments(self):
        into = bytearray(64)
        for memories, offsets, error in (
                ([into], [0, 1], ValueError), (into, [0, 1, 2], ValueError),
                (into, array.array("i", [0]), TypeError), (into, ["0"], TypeError),
                (into, 5, TypeError), ([1], [0], TypeError), ([b"1"], [0], BufferError)):
            with self.assertRaises(error):
                self.lease.read_many(memories, offsets)
        with self.assertRaises(ValueError):
            self.lease.read_many(into, [0, 1], bytes=33)
        into.append(0)

    def test_one_fails(self):
        data = [b"12345678"] * 3000
        offsets = [0] * 3000
        offsets[1500] = PAGE
        with self.assertRaises(rmem.Invalid):
            self.lease.write_many(data, offsets)
        self.lease.write_many(data[:8], offsets[:8])

    def test_threads_take_turns(self):
        failures = []

        def work(i):
            data = bytes([i]) * 4096
            try:
                for _ in range(20):
                    self.lease.write_many(data, range(4096 * i, 4096 * (i + 1), 64))
                    into = bytearray(4096)
                    self.lease.read_many(into, range(4096 * i, 4096 * (i + 1), 64))
                    if into != data:
                        failures.append(i)
            except Exception as why:  # pylint: disable=broad-except
                failures.append(why)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_signal_ends_it(self):
        class Stop(Exception):
            pass

        def stop(*_):
            raise Stop
        before = signal.signal(signal.SIGALRM, stop)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        into = bytearray(PAGE * 500)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        end = time.monotonic() + 60
        with self.assertRaises(Stop):
            while time.monotonic() < end:
                self.lease.read_many(into, [0] * 500)
        into.append(1)
        self.lease.read_many(bytearray(64), [0, 64])
