# SPDX-License-Identifier: BSD-3-Clause
"""Memory that is read into and written from."""

import array
import ctypes
import mmap
import resource
import sys
import unittest

import rmem
from stage import PAGE, Case

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("n_dims", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", Tensor)]


class Fake:
    """Has DLPack and no buffer protocol, as tensors of torch: bfloat16 by default."""

    def __init__(self, data, shape, strides=None, byte_offset=0, code=4, bits=16, device=1,
                 versioned=False, flags=0, major=1):
        self.data = (ctypes.c_char * len(data)).from_buffer(data)
        self.sizes = (ctypes.c_int64 * len(shape))(*shape)
        self.steps = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        tensor = Tensor(ctypes.addressof(self.data), Device(device, 0), len(shape), code, bits, 1,
                        self.sizes, self.steps, byte_offset)
        self.versioned = versioned
        self.managed = (Versioned(major, 0, None, None, flags, tensor) if versioned else
                        Managed(tensor, None, None))

    def capsule(self, name):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                                       ctypes.c_void_p]
        self.name = name
        return new(ctypes.addressof(self.managed), name, None)

    def __dlpack__(self, **names):
        if not self.versioned:
            if names:
                raise TypeError("older than max_version")
            return self.capsule(b"dltensor")
        assert names == {"max_version": (1, 0)}, names
        return self.capsule(b"dltensor_versioned")


class Memory(Case):
    def round_trip(self, source, into, data):
        self.lease.fill(0, PAGE)
        self.lease.write(source)
        check = bytearray(len(data))
        self.lease.read_into(check)
        self.assertEqual(bytes(check), data)
        self.lease.read_into(into)

    def test_of_the_standard_library(self):
        data = bytes(range(256)) * 16
        into = bytearray(4096)
        self.round_trip(data, into, data)
        self.assertEqual(into, data)
        into = array.array("d", bytes(4096))
        self.round_trip(memoryview(data), into, data)
        self.assertEqual(into.tobytes(), data)
        with mmap.mmap(-1, 4096) as into:
            self.round_trip(array.array("q", data), into, data)
            self.assertEqual(into[:], data)
        into = (ctypes.c_uint32 * 1024)()
        self.round_trip(bytearray(data), into, data)
        self.assertEqual(bytes(into), data)

    def test_refused(self):
        with self.assertRaisesRegex(BufferError, "read-only"):
            self.lease.read_into(b"1234")
        with self.assertRaisesRegex(BufferError, "read-only"):
            self.lease.read_into(memoryview(bytearray(4)).toreadonly())
        for call in (self.lease.read_into, self.lease.write):
            with self.assertRaisesRegex(BufferError, "ascontiguousarray"):
                call(memoryview(bytearray(8))[::2])
            with self.assertRaisesRegex(TypeError, "neither"):
                call(object())

    def test_is_released(self):
        data = bytearray(64)
        before = sys.getrefcount(data)
        for _ in range(10):
            self.lease.read_into(data)
            with self.assertRaises(OSError):
                self.lease.read_into(data, PAGE)
        self.assertEqual(sys.getrefcount(data), before)
        data.append(1)

    def test_much_is_not_copied(self):
        n = 64 << 20
        lease = self.session.alloc(n)
        memory = mmap.mmap(-1, n)
        for i in range(0, n, 1 << 20):  # not at once: the peak must not have room for a copy
            memory[i:i + (1 << 20)] = b"\x5a" * (1 << 20)
        self.lease.write(memory[:4096])  # what the library allocates at first
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        lease.write(memory)
        lease.read_into(memory)
        lease.write_many(memory, range(0, n, 1 << 20))
        lease.read_many(memory, range(0, n, 1 << 20))
        with self.session.queue() as queue:
            queue.submit([rmem.Op(rmem.WRITE, lease, memory), rmem.Op(rmem.READ, lease, memory)])
            self.assertEqual([one.error for one in queue.wait(2)], [None, None])
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.assertLess(after - before, 16 << 10, "KiB")
        self.assertEqual(memory[n - 1], 0x5a)
        self.assertEqual(self.session.counters["copied_bytes"], 0)
        lease.destroy()

    def test_tensor_by_dlpack(self):
        for versioned in (False, True):
            data = bytearray(range(64))
            into = bytearray(64)
            self.round_trip(Fake(data, (4, 8), versioned=versioned),
                            Fake(into, (4, 8), (8, 1), versioned=versioned), bytes(data))
            self.assertEqual(into, data)
            self.lease.write(Fake(data, (2, 4), (4, 1), 16, versioned=versioned))
            check = bytearray(16)
            self.lease.read_into(check)
            self.assertEqual(check, data[16:32])
            self.lease.read_into(Fake(into, (4, 8), device=3, versioned=versioned))  # pinned
            self.assertEqual(into[:16], check)

    def test_tensor_refused(self):
        data = bytearray(64)
        for fake in (Fake(data, (4, 4), (1, 4)), Fake(data, (4,), (2,))):
            with self.assertRaisesRegex(BufferError, "contiguous"):
                self.lease.write(fake)
        with self.assertRaisesRegex(BufferError, "device of type 4"):
            self.lease.write(Fake(data, (4,), device=4))
        with self.assertRaisesRegex(BufferError, "version 2"):
            self.lease.write(Fake(data, (4,), versioned=True, major=2))
        read_only = Fake(data, (4,), versioned=True, flags=1)
        self.lease.write(read_only)
        with self.assertRaisesRegex(BufferError, "read-only"):
            self.lease.read_into(read_only)

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_array_of_numpy(self):
        data = numpy.arange(1024, dtype="f4").reshape(32, 32)
        into = numpy.zeros((32, 32), "f4")
        self.round_trip(data, into, data.tobytes())
        self.assertTrue((data == into).all())
        self.lease.write(numpy.asfortranarray(data))
        with self.assertRaisesRegex(BufferError, "ascontiguousarray"):
            self.lease.write(data[:, ::2])
        data.flags.writeable = False
        with self.assertRaisesRegex(BufferError, "read-only"):
            self.lease.read_into(data)

    @unittest.skipUnless(torch, "torch is not installed")
    def test_tensor_of_torch(self):
        data = torch.arange(1024).to(torch.bfloat16)
        into = torch.zeros(1024, dtype=torch.bfloat16)
        self.lease.write(data)
        self.lease.read_into(into)
        self.assertTrue(torch.equal(data, into))
