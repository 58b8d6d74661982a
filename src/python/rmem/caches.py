# SPDX-License-Identifier: BSD-3-Clause
"""A cache of many clients in the memory of servers."""

import atexit
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from . import _rmem, sessions
from .errors import Error
from .records import CacheEntry

GET, PUT, EXISTS, DELETE = range(1, 5)

Key = Union[bytes, str]

_open = weakref.WeakSet()


def _one(results: List[Any]) -> Any:
    if isinstance(results[0], BaseException):  # an Error, or why it could not be made
        raise results[0]
    return results[0]


class Cache:
    """A client of a cache, which is in the memory of servers and has no program of its own there.

    Keys are bytes, or str in UTF-8, of 1 to 255 bytes, values of up to 64 MiB.  A value that was
    stored may be missing at any time; a server that is lost costs misses, not errors.  Values are
    read into and written from memory of the caller: what has the buffer protocol or DLPack.  Any
    thread may use a Cache; it is a context manager.

      servers    URIs as for rmem.open(), of all clients the same; None: the environment variable
                 RMEM_SERVER
      bytes      of each server's memory, if there is no cache of that name yet; 0: there must be
      immutable  of a cache that is made: no key ever has two values, and a get is one round trip
      read_only  this client only reads
    Others are those of rmem_cache_open(3), and of rmem.open().
    """

    def __init__(self, servers: Union[None, str, Sequence[str]], name: str, *, bytes: int = 0,
                 immutable: bool = False, read_only: bool = False, depth: int = 0,
                 segment_bytes: int = 0, places: int = 0, timeout: float = 10,
                 client: Optional[str] = None, psk: Optional[Callable[[str], "bytes"]] = None):
        uris = () if servers is None else (servers,) if isinstance(servers, str) else tuple(servers)
        self._cache = _rmem.cache(uris, name, immutable | read_only << 1, depth, bytes,
                                  segment_bytes, places, sessions.milliseconds(timeout), client,
                                  sessions.key_of(uris[0] if uris else None, psk))
        _open.add(self)

    def __enter__(self) -> "Cache":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return self._cache.__reduce__()

    def close(self) -> None:
        """End the client.  Waits for calls of other threads; what submit() began is forgotten."""
        self._cache.close()

    @property
    def closed(self) -> bool:
        """True once close() was called."""
        return self._cache.closed

    def get(self, key: Key, memory: Any) -> Optional[int]:
        """Read a value into the beginning of the memory.  Returns its length; None: missing."""
        return _one(self._cache.get_many((key,), (memory,)))

    def load(self, key: Key) -> Optional["bytes"]:
        """A value as new bytes; None: missing."""
        length = self.exists(key)
        while length is not None:
            memory = bytearray(length)
            got = self._cache.get_many((key,), (memory,))[0]
            if got is None or isinstance(got, int):
                return None if got is None else bytes(memory[:got])
            length = self.exists(key)
            if length is not None and length <= len(memory):
                raise got
        return None

    def put(self, key: Key, memory: Any, ttl_ms: int = 0) -> None:
        """Store a value, for ttl_ms milliseconds; 0: until it is evicted."""
        _one(self._cache.put_many((key,), (memory,), ttl_ms))

    def exists(self, key: Key) -> Optional[int]:
        """The length of a value; None: missing."""
        return _one(self._cache.exists_many((key,)))

    def delete(self, key: Key) -> bool:
        """Delete a key.  False: it was missing."""
        return _one(self._cache.delete_many((key,)))

    def get_many(self, keys: Sequence[Key],
                 memories: Sequence[Any]) -> List[Union[int, None, Error]]:
        """Read values, each into the beginning of a memory.

        For each key its length, None if it is missing, or why it failed.
        """
        return self._cache.get_many(keys, memories)

    def put_many(self, keys: Sequence[Key], memories: Sequence[Any],
                 ttl_ms: int = 0) -> List[Union[bool, Error]]:
        """Store values.  For each key True, or why it failed."""
        return self._cache.put_many(keys, memories, ttl_ms)

    def exists_many(self, keys: Sequence[Key]) -> List[Union[int, None, Error]]:
        """For each key the length of its value, None if it is missing, or why it failed."""
        return self._cache.exists_many(keys)

    def delete_many(self, keys: Sequence[Key]) -> List[Union[bool, Error]]:
        """For each key True, False if it was missing, or why it failed."""
        return self._cache.delete_many(keys)

    def submit(self, opcode: int, keys: Sequence[Key], memories: Optional[Sequence[Any]] = None,
               ttl_ms: int = 0, tag: Any = None) -> None:
        """Begin GET, PUT, EXISTS or DELETE of many keys, without waiting.

        The memories are held, and must not be changed, until poll() has told of the tag.
        """
        self._cache.submit(opcode, keys, memories, ttl_ms, tag)

    def poll(self) -> List[Any]:
        """Go on, without waiting.  Returns (tag, results) of what submit() began and has ended."""
        return self._cache.poll()

    def fileno(self) -> int:
        """A descriptor that is readable when poll() has something to do.  Leave it open."""
        return self._cache.fileno()

    def register(self, memory: Any) -> None:
        """Register memory with all servers, those that are away later, and hold it until
        unregister() or close(): over RDMA values of more than 256 bytes are moved from and to it
        in place.  For what is used all the time, such as a pool, as a whole."""
        self._cache.register(memory)

    def unregister(self, memory: Any) -> None:
        """End one registration of this memory.  Raises NotFound if there is none, Busy if
        operations use it."""
        self._cache.unregister(memory)

    def stat(self, server: int = -1) -> Dict[str, int]:
        """What this client has counted, and sees of one server, or of all; rmem_cache_stat(3)."""
        return self._cache.stat(server)

    def list(self) -> List[CacheEntry]:
        """All keys, by reading the directories of the servers; for people who look."""
        return self._cache.list()


def _close_all() -> None:
    for cache in tuple(_open):
        cache.close()


atexit.register(_close_all)
