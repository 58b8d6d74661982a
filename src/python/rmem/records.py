# SPDX-License-Identifier: BSD-3-Clause
"""What calls take and return."""

import enum
from typing import Any, NamedTuple, Optional

READ = 1
WRITE = 2


class Placement(enum.IntEnum):
    """Where on the server to place memory, see rmem_alloc(3)."""
    NODE = 0
    DEVICE = 1
    INTERLEAVE = 2


class Stat(NamedTuple):
    """A named lease as the server describes it."""
    name: str
    id: int
    bytes: int
    age_ms: int
    ttl_ms: int  # remaining time to live; 0: for ever
    sessions: int  # that have attached it
    segments: int


class Op(NamedTuple):
    """An operation of a Queue: READ into, or WRITE from, the memory of an object."""
    opcode: int
    lease: Any
    memory: Any
    offset: int = 0
    tag: Any = None  # the caller's


class Completion(NamedTuple):
    """The end of an operation of a Queue."""
    op: Op
    error: Optional[OSError]  # None: it is done


class CacheEntry(NamedTuple):
    """A key of a Cache, as list() tells."""
    key: bytes
    bytes: int  # of the value
    ttl_ms: int  # that remain; 0: for ever
    server: int  # number in the list of servers


class NoticeType(enum.IntEnum):
    """What a Notice tells."""
    VALUE = 0  # a notification was sent
    RESUMED = 1  # the session was lost, and has resumed
    ENDED = 2  # the lease has ended
    WANTED = 3  # the server wants memory of the lease back


class Notice(NamedTuple):
    """A notice of a lease, see rmem_notified(3)."""
    lease: Any  # None: it was dropped here
    type: int  # NoticeType; one that is not known is to be ignored
    reason: int  # of ENDED
    value: int  # of VALUE: that of write_notify()
    lost: int  # notices of the lease before this one; 2**32 - 1: unknown, or as many or more
