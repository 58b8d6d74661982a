# SPDX-License-Identifier: BSD-3-Clause
"""256 MiB are written and read, and not copied."""

import asyncio
import resource
import unittest

from rmem import aio
from stage import Case

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None

BYTES = 256 << 20
STEP = 1 << 20


def peak_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Large(Case):
    def moved(self, memory, clear):
        """Write it, clear it, and read it, in each way."""
        lease = self.session.alloc(BYTES)
        lease.write(b"x" * 4096)  # what the library allocates at first
        before = peak_kib()
        lease.write(memory)
        clear()
        lease.read_into(memory)
        lease.write_many(memory, range(0, BYTES, STEP))
        clear()
        lease.read_many(memory, range(0, BYTES, STEP))

        async def awaited():
            await aio.Lease(lease).write(memory)
            clear()
            await aio.Lease(lease).read_into(memory)
        asyncio.run(awaited())
        self.assertLess(peak_kib() - before, 16 << 10, "KiB")
        self.assertEqual(self.session.counters["copied_bytes"], 0)
        lease.destroy()

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_array_of_numpy(self):
        array = numpy.arange(BYTES // 4, dtype="u4")
        want = array[::4093].copy()
        self.moved(array, lambda: array.fill(0))
        self.assertTrue((array[::4093] == want).all())

    @unittest.skipUnless(torch, "torch is not installed")
    def test_tensors_of_torch(self):
        for kind in (torch.float32, torch.bfloat16):
            tensor = torch.full((BYTES // (4 if kind == torch.float32 else 2),), 1.5, dtype=kind)
            tensor[::4093] = torch.arange(len(tensor[::4093])) % 100
            want = tensor[::4093].clone()
            self.moved(tensor, tensor.zero_)
            self.assertTrue(torch.equal(tensor[::4093], want))
            self.assertEqual(tensor[1].item(), 1.5)
