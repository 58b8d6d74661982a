# SPDX-License-Identifier: BSD-3-Clause
"""rmem for asyncio: what waits is awaited, and one reader of the event loop completes it.

    session = await rmem.aio.open("rmem://server")
    lease = await session.attach("example")
    await lease.read_into(data, 0)

A session, and the leases of it, may be used in several loops, each in its thread.  When an await
that was cancelled has ended, its operation has ended too, and its memory is free: that takes as
long as the operation, or 10 ms and the time in which the server answers; of a write at a server
that is silent twice its fence_ms.
"""

import asyncio
import collections
import contextlib
import errno
import os
import select
import struct
import sys
import threading
import weakref
from typing import Any, Callable, List, Optional, Sequence, Union

from . import _rmem, caches, sessions
from .errors import Error, Stale
from .records import READ, WRITE, Notice, Placement

_DRAIN = 1024  # completions for a wake-up, so that the loop's timers run
_CANCEL_SECONDS = 0.01  # an operation that ends by itself meanwhile is not cancelled on the wire


Operation = _rmem.Operation

# enum rmem_opcode
_CAS, _FETCH_ADD = 3, 4
_FILL, _COPY, _CRC = 7, 8, 9
_WRITE_NOTIFY = 11
# enum rmem_call
(_OPEN, _CLOSE, _QUEUE, _BUFFER, _ALLOC, _ATTACH, _ATTACH_SHARED, _DETACH, _DESTROY, _RENAME,
 _SHARE, _UNSHARE, _GROW, _SHRINK, _RENEW, _KEEP, _REMOVE, _STAT, _LIST, _WATCH, _UNWATCH,
 _PING) = range(1, 23)


class Call(asyncio.Future):
    """What a call to the server is awaited by.  Cancelled, it ends at once: whether the call takes
    effect is not known, and what it grants is given back."""
    __slots__ = ("_calls", "_cookie", "_wrap")

    def __init__(self, calls: "_LoopCalls", wrap: Optional[Callable[[Any], Any]]):
        super().__init__(loop=calls.hub.loop)
        self._calls = calls
        self._cookie = None
        self._wrap = wrap

    def begin(self, *what: Any) -> "Call":
        self._cookie = self._calls.begin(self, *what)
        return self

    def cancel(self, msg: Any = None) -> bool:
        if self.done():
            return False
        self._calls.calls.cancel(self._cookie)
        return super().cancel(msg)

    def complete(self, error: Optional[Exception], result: Any) -> None:
        """Called once with the answer, also after cancel()."""
        if self.done():
            if isinstance(result, _rmem.Lease):
                with contextlib.suppress(Stale):  # it has ended with its session
                    Call(self._calls, None).begin(_DETACH, result)
            elif isinstance(result, _rmem.Session):
                Call(self._calls, None).begin(_CLOSE, result)
        elif error is not None:
            self.set_exception(error)
        else:
            self.set_result(self._wrap(result) if self._wrap else result)


class _LoopCalls:
    """The calls of one loop, of any sessions."""

    def __init__(self, hub: "_Hub"):
        self.hub = hub
        self.calls = _rmem.calls()
        self.fd = self.calls.fileno()
        self.flushing = False

    def begin(self, future: Call, call: int, target: Any, name: Optional[str] = None,
              tenant: Optional[str] = None, value: int = 0, params: Any = None) -> int:
        if self.hub.loop.is_closed():
            raise RuntimeError("Event loop is closed")
        cookie = self.calls.begin(future, call, target, name, tenant, value, params)
        if not self.flushing:
            # those of one turn of the loop are sent together
            self.hub.loop.call_soon(self.flush)
            self.flushing = True
        return cookie

    def flush(self) -> None:
        self.flushing = False
        self.calls.flush()

    def ready(self) -> None:
        self.calls.take()

    def close(self) -> None:
        self.calls.close()


class CacheCall(asyncio.Future):
    """What keys of a cache are awaited by.  Cancelled, it ends when its memory is free."""
    __slots__ = ("_cancelled_by",)

    def __init__(self, loop: asyncio.AbstractEventLoop):
        super().__init__(loop=loop)
        self._cancelled_by = None

    def cancel(self, msg: Any = None) -> bool:
        if self.done():
            return False
        if self._cancelled_by is None:
            self._cancelled_by = (msg,)
        return True

    def complete(self, results: Any) -> None:
        """Called once: with a list, or with an exception if the cache was closed."""
        if self._cancelled_by is not None:
            super().cancel(*self._cancelled_by)
        elif isinstance(results, Exception):
            self.set_exception(results)
        else:
            self.set_result(results)


class _LoopCache:
    """A cache in one loop."""

    def __init__(self, hub: "_Hub", cache: caches.Cache):
        self.hub = hub
        self.cache = cache
        self.fd = cache.fileno()
        self.outstanding = set()
        # a reader of its own: the kernel nests no more descriptors of epoll in each other
        hub.loop.add_reader(self.fd, self.drain)

    def drain(self) -> None:
        for future, results in self.cache.poll():
            if future in self.outstanding:  # else of a loop that was closed
                self.outstanding.discard(future)
                future.complete(results)

    def close(self) -> None:
        if not self.hub.closed:
            self.hub.loop.remove_reader(self.fd)
        self.cache.close()
        for future in () if self.hub.closed else self.outstanding:
            future.complete(Stale(errno.ESTALE, "the cache is closed"))
        self.outstanding.clear()


class _SessionDriver(_rmem.Driver):  # Driver(session, loop)
    """The operations of one loop on one session."""

    def start(self, hub: "_Hub", session: _rmem.Session) -> "_SessionDriver":
        self.hub = hub
        self.fd = None  # there is no queue yet
        self.cancelling = collections.deque()  # (time, cookie)
        self.timer = None
        Call(hub.calls, None).begin(_QUEUE, session, None, None, 0,
                                    self).add_done_callback(self.opened)
        return self

    def opened(self, call: Call) -> None:
        """There is a queue: what has waited for it is submitted."""
        error = None if call.cancelled() else call.exception()
        if error is not None or call.cancelled():
            self.close(error)
        elif not self.closed:
            self.fd = self.fileno()
            self.hub.bind(self)
            self.flush()

    def flush(self) -> None:
        """Called once for those of one turn of the loop, which are submitted together."""
        super().flush()
        if self.fd is not None and not self.closed:
            self.ready()

    def ready(self) -> None:
        if self.closed:
            self.hub.forget(self)
        elif not self.drain(_DRAIN):
            self.hub.loop.call_soon(self.ready)

    def cancel_soon(self, cookie: int) -> None:
        """Cancel an operation on the wire, if it does not end by itself soon."""
        self.cancelling.append((self.hub.loop.time() + _CANCEL_SECONDS, cookie))
        if self.timer is None:
            self.timer = self.hub.loop.call_later(_CANCEL_SECONDS, self.cancel_due)

    def cancel_due(self) -> None:
        self.timer = None
        # the loop may be late: what has ended is not cancelled, which costs a channel
        self.ready()
        now = self.hub.loop.time()
        while self.cancelling and not self.closed and self.cancelling[0][0] <= now:
            self.cancel_posted(self.cancelling.popleft()[1])
        if self.cancelling and not self.closed:
            self.timer = self.hub.loop.call_at(self.cancelling[0][0], self.cancel_due)


class _Hub:
    """The drivers of one event loop, and its one reader."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = weakref.ref(loop)
        self.drivers = weakref.WeakKeyDictionary()  # of sessions
        self.by_fd = {}
        self.epoll = select.epoll()
        self._calls = None
        loop.add_reader(self.epoll.fileno(), self.ready)

    @property
    def closed(self) -> bool:
        loop = self._loop()
        return loop is None or loop.is_closed()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        loop = self._loop()
        if loop is None:
            raise RuntimeError("Event loop is closed")
        return loop

    def driver(self, session: _rmem.Session) -> _SessionDriver:
        driver = self.drivers.get(session)
        if driver is None or driver.closed:
            for one, old in tuple(self.drivers.items()):
                if old.closed:
                    self.forget(old)
                    del self.drivers[one]
            driver = _SessionDriver(session, self.loop).start(self, session)
            self.drivers[session] = driver
        return driver

    @property
    def calls(self) -> _LoopCalls:
        if self._calls is None:
            self._calls = _LoopCalls(self)
            self.bind(self._calls)
        return self._calls

    def bind(self, one: Any) -> None:
        """Let one be drained when its descriptor is readable."""
        self.epoll.register(one.fd, select.EPOLLIN)
        self.by_fd[one.fd] = one

    def ready(self) -> None:
        for fd, _ in self.epoll.poll(0):
            one = self.by_fd.get(fd)
            if one is not None:
                one.ready()

    def forget(self, driver: _SessionDriver) -> None:
        """The queue has ended, and its descriptor with it."""
        if self.by_fd.get(driver.fd) is driver:
            del self.by_fd[driver.fd]

    def end(self) -> None:
        for one in [*self.drivers.values(), *self.by_fd.values()]:
            one.close()
        self.by_fd.clear()
        self.epoll.close()


_hubs = weakref.WeakKeyDictionary()  # of loops
_hubs_lock = threading.Lock()  # to add one


_one = caches._one  # pylint: disable=protected-access


def _hub() -> _Hub:
    loop = asyncio.get_running_loop()
    hub = _hubs.get(loop)
    if hub is None:
        with _hubs_lock:
            # operations that are outstanding hold a closed loop, and what it has
            for one, old in tuple(_hubs.items()):
                if old.closed:
                    old.end()
                    del _hubs[one]
            hub = _hubs[loop] = _Hub(loop)
        weakref.finalize(loop, hub.end)
    return hub


def _call(wrap: Optional[Callable[[Any], Any]], *what: Any) -> Call:
    return Call(_hub().calls, wrap).begin(*what)


def open(uri: Optional[str] = None, *, timeout: float = 10, client: Optional[str] = None,
         psk: Optional[Callable[[str], bytes]] = None,
         resume: bool = True) -> "Call":  # of a Session
    """Open a session with a memory server; arguments as for rmem.open(), but awaitable."""
    params = sessions.params(uri, timeout, client, psk, resume)
    return _call(lambda session: Session(sessions.watched(session)), _OPEN, None, uri, None, 0,
                 params)


class Session:
    """A session for asyncio: the calls of rmem.Session, awaitable; an async context manager."""
    __slots__ = ("sync", "__weakref__")

    def __init__(self, session: _rmem.Session):
        self.sync = session  # the same session for synchronous calls

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    @property
    def info(self) -> dict:
        """Properties of the session, see rmem_info(3)."""
        return self.sync.info

    @property
    def counters(self) -> dict:
        """What the session has counted."""
        return self.sync.counters

    @property
    def closed(self) -> bool:
        """True once close() was called."""
        return self.sync.closed

    async def close(self) -> None:
        """End the session, its leases' handles, queues and registrations."""
        if not self.sync.closed:
            await _call(None, _CLOSE, self.sync)

    def alloc(self, bytes: int, *, name: Optional[str] = None, attach: bool = False,
              ttl_ms: int = 0, align: int = 0, placement: Placement = Placement.NODE,
              node: int = -1, device: Optional[str] = None) -> Call:  # of a Lease
        """Borrow memory of the server; arguments as for rmem.Session.alloc()."""
        return _call(Lease, _ALLOC, self.sync, name, None, 0,
                     (bytes, attach, ttl_ms, align, int(placement), node, device))

    def attach(self, name: str, *, write: bool = False, tenant: Optional[str] = None) -> Call:
        """Attach a lease by its name, for reading, or reading and writing."""
        return _call(Lease, _ATTACH if tenant is None else _ATTACH_SHARED, self.sync, name, tenant,
                     3 if write else 1)

    async def attach_many(self, names: Sequence[str], *,
                          write: bool = False) -> List[Union["Lease", Error]]:
        """Attach leases in one round trip: for each name its Lease, or why it is not attached."""
        return await asyncio.gather(*(self.attach(name, write=write) for name in names),
                                    return_exceptions=True)

    def remove(self, name: str) -> Call:
        """End a named lease for all sessions, without attaching it."""
        return _call(None, _REMOVE, self.sync, name)

    def stat(self, name: str) -> Call:  # of a Stat
        """Describe a named lease."""
        return _call(None, _STAT, self.sync, name)

    def list(self, prefix: str = "") -> Call:  # of a list of Stat
        """Describe the named leases whose names begin with prefix."""
        return _call(None, _LIST, self.sync, prefix)

    async def notified(self) -> List[Notice]:
        """Take notices of leases that are watched; waits for the first one."""
        loop = asyncio.get_running_loop()
        while not (notices := self.sync.notified(timeout_ms=0)):
            readable = loop.create_future()
            fd = os.dup(self.sync.notified_fileno())  # the session may be closed meanwhile
            loop.add_reader(fd, lambda: readable.done() or readable.set_result(None))
            try:
                await readable
            finally:
                loop.remove_reader(fd)
                os.close(fd)
        return notices

    def ping(self) -> Call:
        """A round trip to the server: its duration in seconds."""
        return _call(None, _PING, self.sync)


_byte = struct.Struct("B").pack


class Lease(_rmem.AioLease):
    """A lease for asyncio: read_into() and others of rmem.Lease, awaitable."""
    __slots__ = ()

    def _find_driver(self) -> _SessionDriver:
        return _hub().driver(self.sync.session)

    read_into = _rmem.AioLease.read_into
    write = _rmem.AioLease.write

    def read_many(self, memories: Sequence[Any], offsets: Sequence[int]) -> Operation:
        """Read many ranges, each into a memory: one future, in one submission."""
        return self._driver().begin_many(READ, self.sync, memories, offsets)

    def write_many(self, memories: Sequence[Any], offsets: Sequence[int]) -> Operation:
        """Write many memories, each to a range: one future, in one submission."""
        return self._driver().begin_many(WRITE, self.sync, memories, offsets)

    def write_notify(self, memory: Any, offset: int = 0, value: int = 0) -> Operation:
        """Write, then notify the sessions that watch the lease."""
        return self._driver().begin(_WRITE_NOTIFY, self.sync, memory, offset, 0, value,
                                               0, None)

    def fill(self, offset: int, bytes: int, value: int = 0) -> Operation:
        """Let the server fill a range with one byte."""
        pattern = int.from_bytes(_byte(value) * 8, sys.byteorder)
        return self._driver().begin(_FILL, self.sync, None, offset, bytes, pattern, 0,
                                               None)

    def copy(self, source: "Lease", bytes: int, offset: int = 0,
             source_offset: int = 0) -> Operation:
        """Let the server copy a range of another lease, or of this one, to the offset."""
        return self._driver().begin(_COPY, self.sync, None, offset, bytes,
                                               source_offset, 0, source.sync)

    def crc32c(self, offset: int, bytes: int) -> Operation:
        """Let the server compute the CRC-32C of a range."""
        return self._driver().begin(_CRC, self.sync, bytearray(4), offset, bytes, 0, 0,
                                            None)

    def compare_swap(self, offset: int, expected: int, desired: int) -> Operation:
        """Replace a 64-bit number, if it is the expected one: the number found."""
        return self._driver().begin(_CAS, self.sync, bytearray(8), offset, 0, expected,
                                            desired, None)

    def fetch_add(self, offset: int, add: int) -> Operation:
        """Add to a 64-bit number, modulo 2**64: the number found."""
        return self._driver().begin(_FETCH_ADD, self.sync, bytearray(8), offset, 0, 0,
                                            add, None)

    async def __aenter__(self) -> "Lease":
        return self

    async def __aexit__(self, *_: Any) -> None:
        if self.sync.attached:
            await self.detach()

    @property
    def bytes(self) -> int:
        """Its length in bytes."""
        return self.sync.bytes

    @property
    def id(self) -> int:
        """A number that the server never uses twice."""
        return self.sync.id

    @property
    def name(self) -> Optional[str]:
        """Its name, or None."""
        return self.sync.name

    @property
    def writable(self) -> bool:
        """True if it may be written to."""
        return self.sync.writable

    @property
    def attached(self) -> bool:
        """True until detach() or destroy(), or the end of the session."""
        return self.sync.attached

    @property
    def ended(self) -> bool:
        """True once it cannot be used any more."""
        return self.sync.ended

    def grow(self, bytes: int) -> Call:
        """Make the lease longer; what is added reads as zero."""
        return _call(None, _GROW, self.sync, None, None, bytes)

    def shrink(self, bytes: int) -> Call:
        """Make the lease shorter."""
        return _call(None, _SHRINK, self.sync, None, None, bytes)

    def renew(self, ttl_ms: int) -> Call:
        """Start the time to live again, in milliseconds."""
        return _call(None, _RENEW, self.sync, None, None, ttl_ms)

    def keep(self, ttl_ms: int) -> Call:
        """As renew(), and the session goes on to renew it by itself."""
        return _call(None, _KEEP, self.sync, None, None, ttl_ms)

    def rename(self, name: str, *, replace: bool = False) -> Call:
        """Name the lease, or change its name."""
        return _call(None, _RENAME, self.sync, name, None, 1 if replace else 0)

    def share(self, tenant: str, *, write: bool = False) -> Call:
        """Let another tenant attach the lease."""
        return _call(None, _SHARE, self.sync, None, tenant, 3 if write else 1)

    def unshare(self, tenant: str) -> Call:
        """End what share() began."""
        return _call(None, _UNSHARE, self.sync, None, tenant)

    def watch(self) -> Call:
        """Let the session take the lease's notifications."""
        return _call(None, _WATCH, self.sync)

    def unwatch(self) -> Call:
        """End what watch() began."""
        return _call(None, _UNWATCH, self.sync)

    def detach(self) -> Call:
        """End the use here: a named lease lives on, another one is freed."""
        return _call(None, _DETACH, self.sync)

    def destroy(self) -> Call:
        """End the lease for all sessions."""
        return _call(None, _DESTROY, self.sync)


class Cache:
    """A cache for asyncio, in one loop until that is closed; an async context manager.

    Arguments as for rmem.Cache, which opens it: Cache(await asyncio.to_thread(rmem.Cache, ...)).
    Memory is registered with that one, before anything is awaited, as it takes its time.
    """
    __slots__ = ("_cache", "_bound", "__weakref__")

    def __init__(self, cache: caches.Cache):
        self._cache = cache
        self._bound = None

    async def __aenter__(self) -> "Cache":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """End the client.  What is awaited ends in Stale."""
        if self._bound is None:
            self._cache.close()
        elif not self._cache.closed:
            self._bound.close()

    def stat(self, server: int = -1) -> dict:
        """What this client has counted, and sees of one server, or of all."""
        return self._cache.stat(server)

    def get_many(self, keys: Sequence[caches.Key], memories: Sequence[Any]) -> CacheCall:
        """Read values, each into the beginning of a memory; results as of rmem.Cache."""
        return self._submit(caches.GET, keys, memories)

    def put_many(self, keys: Sequence[caches.Key], memories: Sequence[Any],
                 ttl_ms: int = 0) -> CacheCall:
        """Store values; results as of rmem.Cache."""
        return self._submit(caches.PUT, keys, memories, ttl_ms)

    def exists_many(self, keys: Sequence[caches.Key]) -> CacheCall:
        """Ask for the lengths of values; results as of rmem.Cache."""
        return self._submit(caches.EXISTS, keys)

    def delete_many(self, keys: Sequence[caches.Key]) -> CacheCall:
        """Delete keys; results as of rmem.Cache."""
        return self._submit(caches.DELETE, keys)

    async def get(self, key: caches.Key, memory: Any) -> Optional[int]:
        """Read a value into the beginning of the memory: its length; None: missing."""
        return _one(await self.get_many((key,), (memory,)))

    async def put(self, key: caches.Key, memory: Any, ttl_ms: int = 0) -> None:
        """Store a value, for ttl_ms milliseconds; 0: until it is evicted."""
        _one(await self.put_many((key,), (memory,), ttl_ms))

    async def exists(self, key: caches.Key) -> Optional[int]:
        """The length of a value; None: missing."""
        return _one(await self.exists_many((key,)))

    async def delete(self, key: caches.Key) -> bool:
        """Delete a key.  False: it was missing."""
        return _one(await self.delete_many((key,)))

    def _submit(self, opcode: int, keys: Sequence[caches.Key], memories: Any = None,
                ttl_ms: int = 0) -> CacheCall:
        hub = _hub()
        if self._bound is None or self._bound.hub.closed:
            self._bound = _LoopCache(hub, self._cache)
        elif self._bound.hub is not hub:
            raise RuntimeError("the cache is used in another event loop")
        future = CacheCall(hub.loop)
        self._cache.submit(opcode, keys, memories, ttl_ms, future)
        self._bound.outstanding.add(future)
        return future
