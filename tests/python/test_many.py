# SPDX-License-Identifier: BSD-3-Clause
"""Many operations leave no objects, descriptors or memory behind: RMEM_PYTHON_OPERATIONS of each
kind."""

import asyncio
import gc
import os
import sys
import time

import rmem
from rmem import READ, WRITE, Op, aio
from stage import PAGE, URI, Case

N = int(os.environ.get("RMEM_PYTHON_OPERATIONS", "10000"))
TURN = 500  # operations


def resident_kib():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * (os.sysconf("SC_PAGESIZE") >> 10)


def kept():
    gc.collect()
    return sys.getallocatedblocks(), len(os.listdir("/proc/self/fd")), resident_kib()


class Many(Case):
    def setUp(self):
        super().setUp()
        # a busy machine stops the daemon for longer than ten seconds, now and then
        self.session = rmem.open(URI, timeout=120)
        self.addCleanup(self.session.close)
        self.lease = self.session.alloc(PAGE)

    def measured(self, name, turns):
        """Let a generator make turns until there are N operations; the first ones fill caches."""
        for _ in range(max(5, N // TURN // 20)):
            next(turns)
        before, begin = kept(), time.monotonic()
        for _ in range(N // TURN):
            next(turns)
        seconds = time.monotonic() - begin
        more = [now - was for now, was in zip(kept(), before)]
        print(f"{name}: {N} operations in {seconds:.1f} s; "
              f"{more[0]:+} blocks, {more[1]:+} descriptors, {more[2]:+} KiB", flush=True)
        self.assertLess(more[0], 1000)
        self.assertEqual(more[1], 0)
        if "LD_PRELOAD" not in os.environ:  # a sanitizer keeps what was freed for a time
            self.assertLess(more[2], 8 << 10)

    def single(self):
        into = bytearray(64)
        while True:
            for i in range(TURN // 2):
                self.lease.write(b"x" * 64, 64 * i)
                self.lease.read_into(into, 64 * i)
            yield

    def failing(self):
        while True:
            for _ in range(TURN):
                try:
                    self.lease.read_into(bytearray(8), PAGE)
                except rmem.Invalid:
                    pass
            yield

    def batches(self):
        into = [bytearray(64) for _ in range(TURN)]
        while True:
            self.lease.read_many(into, [0] * TURN)
            yield

    def queue(self):
        with self.session.queue(TURN) as queue:
            while True:
                queue.submit([Op(READ if i % 2 else WRITE, self.lease, bytearray(64), 64 * i)
                              for i in range(TURN)])
                done = 0
                while done < TURN:
                    done += len(queue.wait())
                yield

    def awaited(self):
        lease = aio.Lease(self.lease)

        async def turn():
            futures = [lease.read_into(bytearray(64), 64 * i) for i in range(TURN)]
            for i in range(0, TURN, 50):
                futures[i].cancel()
            await asyncio.wait(futures)
        with asyncio.Runner() as runner:
            while True:
                runner.run(turn())
                yield

    def test_operations(self):
        for name in ("single", "failing", "batches", "queue", "awaited"):
            turns = getattr(self, name)()
            self.measured(name, turns)
            turns.close()
