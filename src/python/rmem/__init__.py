# SPDX-License-Identifier: BSD-3-Clause
"""Borrow the memory of other hosts, and read and write it in place.

    import rmem

    with rmem.open("rmem://server") as session:
        lease = session.alloc(1 << 20, name="example", attach=True)
        lease.write(b"hello", 0)
        data = bytearray(5)
        lease.read_into(data, 0)

Operations name (lease, offset).  What has the buffer protocol (bytearray, memoryview, mmap, array,
numpy) or DLPack (torch) is read into and written from in place; nothing is copied here.  Failures
are subclasses of OSError, see rmem.errors.  rmem.aio has the same for asyncio.  Any thread may use
sessions, leases and buffers, one thread at a time a queue.  After fork(), and in processes of
multiprocessing, a session is opened anew.
"""

try:
    from ._rmem import Buffer, Lease, Queue, Session, version as __version__
except ImportError as why:
    import sys
    if hasattr(sys, "_is_gil_enabled") and "t" in sys.abiflags:
        raise ImportError("rmem needs a Python with its global lock: this one is free-threaded, "
                          "and does not load extensions of the stable ABI") from why
    raise

from .errors import (Busy, Cancelled, Denied, Draining, Error, Exists, Fault, Invalid, Lost,
                     NoMemory, NoSpace, NotFound, NotSupported, Protocol, QueueFull, Quota, Refused,
                     Stale, TimedOut)
from .caches import DELETE, EXISTS, GET, PUT, Cache
from .records import (READ, WRITE, CacheEntry, Completion, Notice, NoticeType, Op, Placement,
                      Stat)
from .sessions import open  # pylint: disable=redefined-builtin

__all__ = ["__version__", "Buffer", "Busy", "Cache", "CacheEntry", "Cancelled", "Completion",
           "DELETE", "Denied", "Draining", "Error", "EXISTS", "Exists", "Fault", "GET",
           "Invalid", "Lease", "Lost", "NoMemory", "NoSpace", "NotFound", "Notice", "NoticeType",
           "NotSupported", "Op", "open", "Placement", "Protocol", "PUT", "Queue", "QueueFull",
           "Quota", "READ", "Refused", "Session", "Stale", "Stat", "TimedOut", "WRITE"]
