# SPDX-License-Identifier: BSD-3-Clause
"""python-null.py read|batch|await N: so many calls, for python.sh to count the instructions.

The library is the one of python-null.c, which does nothing."""

import array
import asyncio
import itertools
import sys

import rmem
from rmem import aio

AWAITS = 100  # at a time


def read(lease, n):
    data = bytearray(4096)
    read_into = lease.read_into
    for _ in itertools.repeat(None, n):
        read_into(data, 0)


def batch(lease, n):
    blocks = [bytearray(4096) for _ in range(64)]
    offsets = array.array("Q", range(0, 64 * 4096, 4096))
    for _ in itertools.repeat(None, n):
        lease.read_many(blocks, offsets)


def await_(lease, n):
    lease = aio.Lease(lease)
    blocks = [bytearray(4096) for _ in range(AWAITS)]

    async def main():
        await lease.read_into(blocks[0], 0)
        for _ in range(n // AWAITS):
            for future in [lease.read_into(block, 0) for block in blocks]:
                await future
    asyncio.run(main())


WHAT = {"read": read, "batch": batch, "await": await_}
with rmem.open("rmem://null") as session:
    WHAT[sys.argv[1]](session.alloc(1 << 20), int(sys.argv[2]))
