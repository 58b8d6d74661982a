# SPDX-License-Identifier: BSD-3-Clause
"""What the doors have in common: a cache in which all that fails is missing."""

import collections
import contextlib
import errno
import hashlib
import logging
import os
import select
import threading
import time
import weakref
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Union

from ..caches import DELETE, EXISTS, GET, PUT, Cache
from ..errors import Error

__all__ = ["DELETE", "EXISTS", "GET", "PUT", "Door", "End", "key_of"]

log = logging.getLogger("rmem")

_KEY_BYTES = 255
_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}
_AWAY = (errno.ECONNREFUSED, errno.ECONNRESET, errno.ETIMEDOUT, errno.EHOSTUNREACH,
         errno.ENETUNREACH, errno.ESHUTDOWN)
_AGAIN_SECONDS = 5
_QUIET_SECONDS = 60


class End(NamedTuple):
    """A batch has ended."""
    tag: Any
    opcode: int
    ends: List[bool]  # of each key: whether it was found, stored or deleted
    why: str          # of a failure; "": there was none


class _Batch:
    """Keys, and the steps of what is done with them: each yields what the cache is to do, and is
    sent the results."""

    def __init__(self, opcode: int, keys: Sequence[str], memories: Sequence[Any], tag: Any = None):
        self.opcode, self.tag, self.why = opcode, tag, ""
        self.ends = [False] * len(keys)
        self.steps = self._steps(keys, memories)

    def _steps(self, keys: Sequence[str], memories: Sequence[Any]) -> Iterator[Any]:
        lengths = [memoryview(memory).nbytes for memory in memories]
        if self.opcode in (GET, PUT) and len(keys) != len(memories):
            raise ValueError("as many memories as keys are needed")
        if self.opcode == PUT:
            found = yield EXISTS, keys, None
            self.ends = [end == length for end, length in zip(found, lengths)]
        left = [i for i, end in enumerate(self.ends) if not end]
        if not left:
            return
        results = yield (self.opcode, [keys[i] for i in left],
                         [memories[i] for i in left] if memories else None)
        for i, end in zip(left, results):
            if isinstance(end, Error):
                self.why = self.why or str(end)
            elif self.opcode == GET:
                self.ends[i] = end == lengths[i]
            else:
                self.ends[i] = end is True or self.opcode == EXISTS and end is not None


def key_of(text: str) -> str:
    """A key of the cache: the text, or if it is too long, what stands for it everywhere."""
    encoded = text.encode(errors="surrogatepass")
    if 0 < len(encoded) <= _KEY_BYTES:
        return text
    return "sha256/" + hashlib.sha256(encoded).hexdigest()


def _bytes_of(value: Any) -> int:
    text = str(value).strip().upper().removesuffix("IB").removesuffix("B")
    digits, shift = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 0)
    if isinstance(value, (int, str)) and digits.isascii() and digits.isdigit():
        return int(digits) << shift
    raise ValueError(f'rmem: bytes is {value!r}; a number is needed, or one such as "64G"')


def _servers_of(value: Any) -> List[str]:
    servers = [value] if isinstance(value, str) else value
    if isinstance(servers, (list, tuple)) and servers and all(
            isinstance(one, str) and one for one in servers):
        return list(servers)
    raise ValueError(f"rmem: servers is {value!r}; a list of URIs is needed, "
                     'such as ["rmem://mem1.example"]')


class Door:
    """A cache of values that never change, as an engine uses it.

    After it was made nothing raises: what fails is missing.  Servers that are away when it is made
    are tried again.  Any thread may use it.

      servers  URIs of the memory servers, the same for all engines that share the cache
      name     of the cache
      bytes    of each server's memory, if there is no cache of that name yet; a number or "64G"
      timeout  of set-up and operations, in seconds
      client   how rmemctl shows the sessions
    """

    def __init__(self, servers: Union[str, Sequence[str]], name: str,
                 bytes: Union[int, str] = 0, timeout: float = 10, client: Optional[str] = None):
        if not isinstance(name, str) or not name:
            raise ValueError(f"rmem: name is {name!r}; the name of a cache is needed")
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or timeout <= 0:
            raise ValueError(f"rmem: timeout is {timeout!r}; a number of seconds is needed")
        self._options = {"servers": _servers_of(servers), "name": name, "bytes": _bytes_of(bytes),
                         "timeout": timeout, "client": client, "immutable": True}
        self._cache: Optional[Cache] = None
        self._memories: List[Any] = []
        self._opens = threading.Lock()
        self._ended: collections.deque = collections.deque()
        self._closing = threading.Event()
        self._quiet_until = 0.0
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        weakref.finalize(self, os.close, self._wake)
        self._epoll = select.epoll()
        self._epoll.register(self._wake, select.EPOLLIN)
        try:
            self._open()
        except Error as why:
            if why.errno not in _AWAY:
                self.close()
                raise
            self.complain(why)
            threading.Thread(target=self._open_later, name="rmem-open", daemon=True).start()

    def _open(self) -> None:
        cache = Cache(**self._options)
        self._epoll.register(cache.fileno(), select.EPOLLIN)
        with self._opens:
            for memory in self._memories:
                self._register(cache, memory)
            self._cache = cache

    def _open_later(self) -> None:
        while not self._cache and not self._closing.wait(_AGAIN_SECONDS):
            try:
                self._open()
            except Error as why:
                self.complain(why)
        if self._cache and self._closing.is_set():
            self._cache.close()

    def register(self, memory: Any) -> None:
        """Register the engine's memory, and hold it until the end, so that values are moved from
        and to it in place.  Where that fails they are copied."""
        with self._opens:
            self._memories.append(memory)
            if self._cache:
                self._register(self._cache, memory)

    def _register(self, cache: Cache, memory: Any) -> None:
        try:
            cache.register(memory)
        except Exception as why:  # pylint: disable=broad-except
            log.warning("cache %s: the engine's memory is not registered, so that values are "
                        "copied: %s", self._options["name"], why)

    def close(self) -> None:
        """End the client.  What has not ended is forgotten."""
        self._closing.set()
        if self._cache:
            self._cache.close()

    @property
    def cache(self) -> Optional[Cache]:
        """The cache; None: no server was there yet."""
        return self._cache

    def fileno(self) -> int:
        """A descriptor that is readable when poll() has something to do."""
        return self._epoll.fileno()

    def complain(self, why: Any) -> None:
        """Log why something failed, once a minute."""
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + _QUIET_SECONDS
            log.warning("cache %s: %s; what fails counts as missing", self._options["name"], why)

    def _there(self) -> Cache:
        if not self._cache:
            raise ConnectionError("no server is there")
        return self._cache

    # ---- without waiting ----

    def submit(self, opcode: int, keys: Sequence[str], memories: Sequence[Any] = (),
               tag: Any = None) -> None:
        """Begin GET, PUT, EXISTS or DELETE of many keys.  A put leaves alone what is there."""
        self._advance(_Batch(opcode, keys, memories, tag), None)

    def _advance(self, batch: _Batch, results: Any) -> None:
        try:
            self._there().submit(*batch.steps.send(results), tag=batch)
            return
        except StopIteration:
            pass
        except Exception as why:  # pylint: disable=broad-except
            batch.why = str(why)
        if batch.why:
            self.complain(batch.why)
        self._ended.append(End(batch.tag, batch.opcode, batch.ends, batch.why))
        os.eventfd_write(self._wake, 1)

    def poll(self) -> List[End]:
        """Go on, and return the batches that have ended."""
        try:
            for batch, results in self._cache.poll() if self._cache else ():
                self._advance(batch, results)
        except Exception as why:  # pylint: disable=broad-except
            self.complain(why)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        ended = []
        while self._ended:
            ended.append(self._ended.popleft())
        return ended

    # ---- waiting ----

    def call(self, opcode: int, keys: Sequence[str], memories: Sequence[Any] = ()) -> List[bool]:
        """What submit() begins, at once: whether each key was found, stored or deleted."""
        batch, results = _Batch(opcode, keys, memories), None
        try:
            while True:
                results = self._wait(*batch.steps.send(results))
        except StopIteration:
            pass
        except Exception as why:  # pylint: disable=broad-except
            batch.why = str(why)
        if batch.why:
            self.complain(batch.why)
        return batch.ends

    def _wait(self, opcode: int, keys: Sequence[str],
              memories: Optional[Sequence[Any]]) -> List[Any]:
        cache = self._there()
        if opcode == GET:
            return cache.get_many(keys, memories)
        if opcode == PUT:
            return cache.put_many(keys, memories)
        return (cache.exists_many if opcode == EXISTS else cache.delete_many)(keys)
