# SPDX-License-Identifier: BSD-3-Clause
"""LMCache, MP mode: a client for its L2 adapter `native_plugin`; see lmcache.md."""

import itertools
from typing import Any, List, Optional, Sequence, Tuple, Union

from .door import DELETE, EXISTS, GET, PUT, Door, key_of

__all__ = ["Connector"]


class Connector:
    """Batches of LMCache, in a cache of rmem.  The parameters are those of rmem.engines.door.Door;
    they are the adapter_params."""

    def __init__(self, servers: Union[str, Sequence[str]], name: str = "lmcache",
                 bytes: Union[int, str] = 0, timeout: float = 10, client: Optional[str] = None):
        self._door = Door(servers, name, bytes, timeout, client)
        self._ids = itertools.count(1)

    def event_fd(self) -> int:
        """A descriptor that is readable when drain_completions() has something to do."""
        return self._door.fileno()

    def _submit(self, opcode: int, keys: Sequence[str],
                memories: Sequence[Any] = ()) -> int:
        number = next(self._ids)
        self._door.submit(opcode, [key_of(key) for key in keys], memories, number)
        return number

    def submit_batch_get(self, keys: Sequence[str], memories: Sequence[Any]) -> int:
        """Begin to read values, each of the length of its memory."""
        return self._submit(GET, keys, memories)

    def submit_batch_set(self, keys: Sequence[str], memories: Sequence[Any]) -> int:
        """Begin to store values.  What is there is left alone: a key has one value."""
        return self._submit(PUT, keys, memories)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        """Begin to look for keys."""
        return self._submit(EXISTS, keys)

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        """Begin to delete keys."""
        return self._submit(DELETE, keys)

    def drain_completions(self) -> List[Tuple[int, bool, str, List[bool]]]:
        """What has ended: (id, whether all of a store was stored, why not, result of each key)."""
        return [(end.tag, end.opcode != PUT or all(end.ends), end.why, end.ends)
                for end in self._door.poll()]

    def close(self) -> None:
        """End the client."""
        self._door.close()
