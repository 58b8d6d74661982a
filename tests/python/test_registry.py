# SPDX-License-Identifier: BSD-3-Clause
"""Registrations that are made when memory is first used."""

import array
import ctypes
import gc
import unittest

import rmem
from stage import PAGE, URI, Case

try:
    import numpy
except ImportError:
    numpy = None


class Registry(Case):
    def setUp(self):
        super().setUp()
        self.session.registers = True

    def counted(self):
        counters = self.session.counters
        return counters["registrations"], counters["registration_hits"]

    def test_is_off_over_tcp(self):
        with rmem.open(URI) as session:
            self.assertFalse(session.registers)
            lease = session.alloc(PAGE)
            lease.write((ctypes.c_char * PAGE)())
            self.assertEqual(session.counters["registrations"], 0)

    def test_is_made_once(self):
        memory = (ctypes.c_char * PAGE)()
        for i in range(5):
            self.lease.write(memory)
            self.lease.read_into(memory)
            self.assertEqual(self.counted(), (1, 2 * i + 1))
        self.assertEqual(self.session.counters["registered_bytes"], PAGE)
        self.lease.write((ctypes.c_char * 256)())
        self.assertEqual(self.counted()[0], 1)

    def test_ends_with_its_owner(self):
        for i in range(20):
            memory = (ctypes.c_char * PAGE)()
            memory[:4] = b"%4d" % i
            self.lease.write(memory)
            check = bytearray(4)
            self.lease.read_into(check)
            self.assertEqual(check, b"%4d" % i)
            del memory
            gc.collect()
        self.assertEqual(self.counted()[0], 20)
        self.lease.write((ctypes.c_char * PAGE)())
        self.assertEqual(self.session.counters["registered_bytes"], PAGE)

    def test_of_memory_that_may_move(self):
        for memory in (bytearray(PAGE), array.array("b", bytes(PAGE)), bytes(PAGE),
                       memoryview(bytearray(PAGE))):
            self.lease.write(memory)
        self.assertEqual(self.counted(), (0, 0))

    def test_of_batches_and_queues(self):
        memory = [(ctypes.c_char * 4096)() for _ in range(4)]
        self.lease.write_many(memory, range(0, 4 * 4096, 4096))
        self.lease.read_many(memory, range(0, 4 * 4096, 4096))
        self.assertEqual(self.counted(), (4, 4))
        with self.session.queue() as queue:
            queue.submit([rmem.Op(rmem.READ, self.lease, one) for one in memory])
            queue.wait(4)
        self.assertEqual(self.counted(), (4, 8))

    def test_session_ends_them(self):
        memory = (ctypes.c_char * PAGE)()
        self.lease.write(memory)
        with self.session.queue() as queue:
            queue.submit([rmem.Op(rmem.READ, self.lease, memory)] * 16)
            self.session.close()
        self.assertEqual(self.session.counters["registered_bytes"], 0)
        with rmem.open(URI) as other:
            other.registers = True
            other.alloc(PAGE).write(memory)

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_of_parts_of_an_array(self):
        memory = numpy.zeros((16, 4096), "u1")
        for i in range(16):
            self.lease.write(memory[i], 4096 * i)
        self.assertEqual(self.counted(), (1, 15))
        self.assertEqual(self.session.counters["registered_bytes"], 16 * 4096)
