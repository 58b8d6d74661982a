# SPDX-License-Identifier: BSD-3-Clause
"""Tensors on GPUs, with tests/python/libcuda.c in place of CUDA's driver."""

import asyncio
import ctypes
import errno
import gc
import os

import rmem
from rmem import aio
from stage import PAGE, URI, Case
from test_memory import Fake

FAR = 1 << 62
driver = ctypes.CDLL("libcuda.so.1")


def fake(name):
    return ctypes.c_uint.in_dll(driver, "fake_" + name)


class OnDevice(Fake):
    """A tensor of bytes on a device, where nobody but the driver may touch them."""

    def __init__(self, data, number=0):
        super().__init__(data, [len(data)], code=1, bits=8, device=2)
        self.managed.tensor.data += FAR
        self.managed.tensor.device.id = number


class Allocated(OnDevice):
    """A tensor in an allocation of pages, which the driver may export."""

    def __init__(self, address, n, offset=0):
        super().__init__(bytearray(n))
        self.managed.tensor.data = address
        self.managed.tensor.byte_offset = offset


class Cuda(Case):
    def setUp(self):
        super().setUp()
        self.data = os.urandom(PAGE)
        self.source = OnDevice(bytearray(self.data))
        self.into = bytearray(PAGE)
        self.copies = fake("copies").value

    def tearDown(self):
        self.assertEqual(fake("entered").value, 0)

    def counted(self, n):
        self.assertEqual(self.session.counters["pinned_copies"], n)
        self.assertEqual(fake("copies").value - self.copies, n)

    def test_calls(self):
        check = self.session.buffer(PAGE)
        self.lease.write(self.source)
        self.lease.read_into(check)
        self.assertEqual(memoryview(check), self.data)
        into = bytearray(PAGE)
        self.lease.read_into(OnDevice(into, 1))
        self.assertEqual(into, self.data)
        self.counted(2)
        self.assertEqual(self.session.counters["copied_bytes"], 2 * PAGE)
        self.assertEqual(self.session.counters["registrations"], 2)
        self.session.close()
        self.assertEqual(self.session.counters["copied_bytes"], 2 * PAGE)

    def test_batches(self):
        offsets = range(0, PAGE, PAGE // 4)
        self.lease.write_many(self.source, offsets)
        parts = [bytearray(PAGE // 4) for _ in offsets]
        self.lease.read_many([OnDevice(part) for part in parts], offsets)
        self.assertEqual(b"".join(parts), self.data)
        self.counted(5)

    def test_queue(self):
        with self.session.queue() as queue:
            queue.submit([rmem.Op(rmem.WRITE, self.lease, self.source)])
            self.assertIsNone(queue.wait()[0].error)
            queue.submit([rmem.Op(rmem.READ, self.lease, OnDevice(self.into)),
                          rmem.Op(rmem.READ, self.lease, OnDevice(bytearray(1)), PAGE)])
            errors = {one.op.offset: one.error for one in queue.wait(min=2)}
            self.assertIsNone(errors[0])
            self.assertIsInstance(errors[PAGE], rmem.Invalid)
        self.assertEqual(self.into, self.data)
        self.counted(2)

    def test_asyncio(self):
        async def main():
            async with await aio.open(URI) as session:
                lease = await session.alloc(PAGE)
                await lease.write(self.source)
                await asyncio.gather(*(lease.read_into(OnDevice(self.into)) for _ in range(20)))
                self.assertEqual(session.counters["pinned_copies"], 21)
                self.assertLessEqual(session.counters["registrations"], 20)
                future = lease.read_into(OnDevice(self.into))
                await asyncio.sleep(0)
                future.cancel()
                await asyncio.wait([future])
        asyncio.run(main())
        self.assertEqual(self.into, self.data)

    def test_fails(self):
        failure = ctypes.c_int.in_dll(driver, "fake_failure")
        self.addCleanup(setattr, failure, "value", 0)
        calls = [lambda: self.lease.write(self.source),
                 lambda: self.lease.read_into(OnDevice(self.into)),
                 lambda: self.lease.read_many([OnDevice(self.into)], [0])]
        failure.value = 700
        for call in calls:
            with self.assertRaisesRegex(rmem.Error, "CUDA device 0: an illegal memory access"
                                        ) as caught:
                call()
            self.assertEqual(caught.exception.errno, errno.EIO)
        failure.value = 0
        with self.assertRaisesRegex(rmem.Error, "CUDA device 5"):
            self.lease.write(OnDevice(bytearray(8), 5))
        # what was not read is not copied to the tensor
        with self.assertRaises(rmem.Invalid):
            self.lease.read_into(OnDevice(self.into), PAGE)
        self.counted(0)
        for call in calls:
            call()

    def test_memory_of_the_host_is_needed(self):
        with self.assertRaisesRegex(BufferError, "on a GPU"):
            self.session.register(self.source)

    def test_blocks_end_with_the_session(self):
        gc.collect()
        before = fake("pinned").value
        session = rmem.open(URI)
        lease = session.alloc(PAGE)
        for n in (1, PAGE, 2 * PAGE):
            with self.assertRaises(rmem.Invalid):
                lease.write(OnDevice(bytearray(n)), PAGE)
        self.assertEqual(fake("pinned").value, before + 2)
        self.assertEqual(session.counters["registered_bytes"], 3 * PAGE)
        session.close()
        del lease, session
        gc.collect()
        self.assertEqual(fake("pinned").value, before)


class DmaBufs(Case):
    def setUp(self):
        super().setUp()
        driver.fake_alloc.restype = ctypes.c_ulonglong
        self.address = driver.fake_alloc(ctypes.c_size_t(PAGE))
        self.memory = (ctypes.c_char * PAGE).from_address(self.address - FAR)
        self.memory.raw = os.urandom(PAGE)

    def round_trip(self):
        self.lease.write(Allocated(self.address, PAGE))
        check = bytearray(PAGE)
        self.lease.read_into(check)
        self.assertEqual(check, self.memory.raw)
        data = os.urandom(100)
        self.lease.write(data)
        self.lease.read_into(Allocated(self.address, 100, 4000))
        self.assertEqual(self.memory.raw, bytes(check[:4000]) + data + bytes(check[4100:]))

    def test_without_a_copy(self):
        if not os.path.exists("/dev/udmabuf") or self.session.info["fabric"] == "rdma":
            self.skipTest("no dma-buf that the fabric can use")
        self.round_trip()
        self.round_trip()
        counters = {"copied_bytes": 0, "registrations": 1, "registration_hits": 3,
                    "registered_bytes": PAGE, "pinned_copies": 0}
        self.assertEqual(self.session.counters, counters)
        # another allocation at the same address is registered anew
        driver.fake_replace()
        self.round_trip()
        self.assertEqual(self.session.counters, counters | {"registrations": 2,
                                                            "registration_hits": 4})

    def test_copied_where_there_is_none(self):
        if os.path.exists("/dev/udmabuf") and self.session.info["fabric"] == "tcp":
            self.skipTest("there is a dma-buf")
        self.round_trip()
        self.assertEqual(self.session.counters["pinned_copies"], 2)

    def test_copied_where_writes_are_not_ordered(self):
        ordering = ctypes.c_int.in_dll(driver, "fake_ordering")
        self.addCleanup(setattr, ordering, "value", ordering.value)
        ordering.value = 0
        self.round_trip()
        self.assertEqual(self.session.counters["pinned_copies"], 2)

    def test_copied_beyond_the_allocation(self):
        with self.assertRaises(rmem.Invalid):
            self.lease.write(Allocated(self.address, PAGE, 1), PAGE)
        self.assertEqual(self.session.counters["registrations"], 1)
        self.assertEqual(self.session.counters["registered_bytes"], PAGE)
