# SPDX-License-Identifier: BSD-3-Clause
"""Leases."""

import os

import rmem
from stage import PAGE, Case


class Leases(Case):
    def read(self, bytes_, offset=0):
        data = bytearray(bytes_)
        self.lease.read_into(data, offset)
        return bytes(data)

    def test_bytes_come_back(self):
        for n in (0, 1, 64, 4096, 4097, PAGE):
            data = os.urandom(n)
            self.lease.write(data)
            self.assertEqual(self.read(n), data)
        self.lease.write(memory=b"here", offset=PAGE - 4)
        self.assertEqual(self.read(6, PAGE - 6)[2:], b"here")

    def test_arguments(self):
        for args, names in (((), {}), ((b"", 0, 0), {}), ((b"",), {"memory": b""}),
                            ((b"",), {"none": 1}), ((b"", "1"), {}), ((b"", 1.5), {}),
                            ((1,), {}), ((None,), {}), ((["a"],), {})):
            with self.assertRaises(TypeError):
                self.lease.write(*args, **names)
        with self.assertRaises(OverflowError):
            self.lease.write(b"", -1)
        with self.assertRaises(OverflowError):
            self.lease.write(b"", 1 << 64)

    def test_numbers_of_more_bits(self):
        much = 1 << 64
        for call in (lambda: self.lease.fill(much, 8), lambda: self.lease.fill(0, much + 8),
                     lambda: self.lease.copy(self.lease, much + 8),
                     lambda: self.lease.copy(self.lease, 8, much),
                     lambda: self.lease.copy(self.lease, 8, 0, much),
                     lambda: self.lease.crc32c(much, 8), lambda: self.lease.crc32c(0, much + 8),
                     lambda: self.lease.compare_swap(much, 0, 0),
                     lambda: self.lease.fetch_add(much, 0),
                     lambda: self.lease.write_notify(b"", much),
                     lambda: self.lease.write_notify(b"", 0, 1 << 32),
                     lambda: self.lease.grow(much + 2 * PAGE), lambda: self.lease.renew(much),
                     lambda: self.session.alloc(much + PAGE),
                     lambda: self.session.alloc(PAGE, ttl_ms=much),
                     lambda: self.session.alloc(PAGE, align=much)):
            with self.assertRaises(OverflowError):
                call()

    def test_what_the_server_does(self):
        self.lease.fill(0, 4096, 0x5a)
        self.assertEqual(self.read(4096), b"\x5a" * 4096)
        self.lease.copy(self.lease, 16, offset=8192, source_offset=0)
        self.assertEqual(self.read(17, 8192), b"\x5a" * 16 + b"\0")
        self.lease.write(b"123456789")
        self.assertEqual(self.lease.crc32c(0, 9), 0xe3069283)

    def test_atomics(self):
        self.lease.fill(0, 8)
        self.assertEqual(self.lease.fetch_add(0, 5), 0)
        self.assertEqual(self.lease.compare_swap(0, 5, 9), 5)
        self.assertEqual(self.lease.compare_swap(0, 5, 1), 9)
        with self.assertRaises(rmem.Invalid):
            self.lease.fetch_add(4, 1)

    def test_changes(self):
        self.assertIsNone(self.lease.name)
        self.lease.rename("changes")
        self.assertEqual(self.lease.name, "changes")
        self.lease.grow(2 * PAGE)
        self.assertEqual(self.lease.bytes, 2 * PAGE)
        self.lease.shrink(PAGE)
        self.assertEqual(self.lease.bytes, PAGE)
        self.lease.renew(60000)
        self.lease.keep(60000)
        self.lease.watch()
        self.lease.write_notify(b"told", 0, 7)
        self.lease.unwatch()
        self.assertEqual(self.read(4), b"told")
        self.lease.destroy()
        with self.assertRaises(rmem.NotFound):
            self.session.stat("changes")

    def test_ends(self):
        with self.session.alloc(4096) as lease:
            lease.write(b"x")
        self.assertTrue(lease.ended)
        lease.detach()
        with self.assertRaisesRegex(rmem.Stale, "detached"):
            lease.write(b"x")
        with self.assertRaises(rmem.Stale):
            with lease:
                pass

    def test_is_no_memory(self):
        with self.assertRaises(TypeError):
            memoryview(self.lease)
        self.assertIn("no memoryview", rmem.Lease.__doc__)
