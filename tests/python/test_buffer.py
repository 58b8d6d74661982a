# SPDX-License-Identifier: BSD-3-Clause
"""Registered memory."""

import gc
import sys
import threading
import weakref

import rmem
from stage import PAGE, Case


class Buffers(Case):
    def test_of_its_own(self):
        with self.session.buffer(PAGE) as buffer:
            self.assertEqual((len(buffer), buffer.exports), (PAGE, 0))
            with memoryview(buffer) as view:
                self.assertEqual(bytes(view), bytes(PAGE))
                view[:5] = b"hello"
                self.lease.write(buffer)
                view[:5] = bytes(5)
                self.lease.read_into(buffer)
                self.assertEqual(bytes(view[:5]), b"hello")
                with self.assertRaisesRegex(BufferError, "1 views"):
                    buffer.close()
        buffer.close()
        with self.assertRaisesRegex(BufferError, "closed"):
            memoryview(buffer)

    def test_of_an_object(self):
        data = bytearray(PAGE)
        counted = self.session.counters
        buffer = self.session.register(data)
        self.assertEqual(self.session.counters, counted | {
            "registrations": counted["registrations"] + 1,
            "registered_bytes": counted["registered_bytes"] + PAGE})
        with self.assertRaises(BufferError):
            data.append(1)
        data[0] = 7
        self.assertEqual(memoryview(buffer)[0], 7)
        gc.collect()
        buffer.close()
        data.append(1)
        self.assertEqual(self.session.counters["registered_bytes"], counted["registered_bytes"])

    def test_of_read_only_memory(self):
        buffer = self.session.register(b"fixed")
        self.lease.write(buffer)
        with self.assertRaisesRegex(BufferError, "read-only"):
            self.lease.read_into(buffer)
        with self.assertRaises(BufferError):
            buffer.__dlpack__()

    def test_bad(self):
        for bytes_ in (0, -1, 1 << 63, 1 << 70):
            with self.assertRaises((ValueError, OverflowError)):
                self.session.buffer(bytes_)
        for bytes_ in ("1", 1.0, None):
            with self.assertRaises(TypeError):
                self.session.buffer(bytes_)
        with self.assertRaises(TypeError):
            self.session.register(1)
        with self.assertRaises(MemoryError):
            self.session.buffer(1 << 60)

    def test_exports_outlive_the_session(self):
        buffer = self.session.buffer(PAGE)
        view = memoryview(buffer)
        self.session.close()
        view[0] = 1
        del buffer
        gc.collect()
        self.assertEqual(view[0], 1)
        gone = weakref.ref(view.obj)
        del view
        self.assertIsNone(gone())

    def test_dlpack(self):
        buffer = self.session.buffer(PAGE)
        self.assertEqual(buffer.__dlpack_device__(), (1, 0))
        capsule = buffer.__dlpack__()
        self.assertEqual(buffer.exports, 1)
        with self.assertRaises(BufferError):
            buffer.close()
        del capsule
        self.assertEqual(buffer.exports, 0)

        class Tensor:
            def __dlpack__(self, **_):
                return buffer.__dlpack__()
        self.lease.fill(0, PAGE, 9)
        self.lease.read_into(Tensor())
        self.assertEqual(bytes(buffer), b"\x09" * PAGE)
        buffer.close()

    def test_closed_while_it_is_exported(self):
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-6)
        for _ in range(100):
            buffer, views, begun = self.session.buffer(4096), [], threading.Event()

            def work(buffer=buffer, views=views, begun=begun):
                begun.set()
                try:
                    while len(views) < 20:
                        views.append(memoryview(buffer))
                except BufferError:
                    pass
            thread = threading.Thread(target=work)
            thread.start()
            begun.wait()
            try:
                buffer.close()
            except BufferError:
                pass
            thread.join()
            # closed or in use, never both
            self.assertEqual(bool(views), bool(buffer.address))

    def test_of_many_threads(self):
        failures = []

        def work():
            try:
                for _ in range(50):
                    with self.session.buffer(4096) as buffer:
                        self.lease.read_into(buffer)
            except Exception as why:  # pylint: disable=broad-except
                failures.append(why)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(self.session.counters["registered_bytes"], 0)
        self.assertIsInstance(rmem.Busy(16, ""), OSError)
