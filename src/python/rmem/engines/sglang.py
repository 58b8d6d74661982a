# SPDX-License-Identifier: BSD-3-Clause
"""SGLang, HiCache: a storage backend of the kind `dynamic`; see sglang.md."""

import ctypes
import hashlib
from typing import Any, Dict, List, Optional, Sequence

import torch
from sglang.srt.mem_cache.hicache_storage import HiCacheStorage, PoolName, PoolTransferResult

from .door import DELETE, EXISTS, GET, PUT, Door

__all__ = ["Storage"]

_CLEAR = 1024  # keys deleted at a time


def _leading(ends: Sequence[bool]) -> int:
    return next((i for i, end in enumerate(ends) if not end), len(ends))


class _Pool:
    """Pages of the host's memory: each is in one or more pieces, of which each has a key."""

    def __init__(self, host_pool: Any, prefix: str, identity: str):
        self._host_pool = host_pool
        self._page = getattr(host_pool, "page_size", 1) or 1
        _, sizes = host_pool.get_page_buffer_meta(torch.arange(self._page))
        self.pieces = len(sizes)
        # other ranks, types, layouts and sizes have other values under the same hash
        identity += f"/{getattr(host_pool, 'dtype', '')}/{getattr(host_pool, 'layout', '')}"
        identity += f"/{self._page}/{sizes}"
        self.prefix = f"{prefix}{hashlib.sha256(identity.encode()).hexdigest()[:16]}/"

    def keys(self, hashes: Sequence[str]) -> List[str]:
        """Keys of the pieces of pages."""
        return [f"{self.prefix}{one}/{i}" for one in hashes for i in range(self.pieces)]

    def memories(self, hashes: Sequence[str], host_indices: Any) -> List[Any]:
        """Memories of the pieces of pages."""
        if len(host_indices) != len(hashes) * self._page:
            raise ValueError(f"{len(host_indices)} indices of {len(hashes)} pages")
        addresses, lengths = self._host_pool.get_page_buffer_meta(host_indices)
        if len(addresses) != len(hashes) * self.pieces:
            raise ValueError(f"{len(addresses)} pieces of {len(hashes)} pages")
        return [(ctypes.c_ubyte * length).from_address(address)
                for address, length in zip(addresses, lengths)]

    def pages(self, ends: Sequence[bool]) -> List[bool]:
        """Of each page, whether all its pieces are."""
        return [all(ends[i:i + self.pieces]) for i in range(0, len(ends), self.pieces)]


class Storage(HiCacheStorage):
    """Pages of SGLang in a cache of rmem.  "rmem" in the extra config has the parameters of
    rmem.engines.door.Door."""

    def __init__(self, storage_config: Any, kwargs: Optional[dict] = None):
        extra = storage_config.extra_config or {}
        settings = extra.get("rmem")
        if not isinstance(settings, dict):
            raise ValueError('rmem: the extra config needs "rmem": {"servers": [URI, ...]}')
        if not extra.get("interface_v1"):
            raise ValueError('rmem: the extra config needs "interface_v1": 1')
        self._door = Door(**{"name": "sglang", **settings})
        self._config = storage_config
        model = str(storage_config.model_name)
        if len(model.encode()) > 100:
            model = hashlib.sha256(model.encode()).hexdigest()
        self._prefix = f"sglang/{model}/"
        self._tag = extra.get("extra_backend_tag", "")
        self._pools: Dict[str, Optional[_Pool]] = {}  # None: its pages are only counted

    def _identity(self, name: str, host_pool: Any) -> str:
        """Of the pool, what is not the same on all ranks: an MLA model's keys and values are."""
        config = self._config
        ranks = [(getattr(config, f"{of}_rank", 0), getattr(config, f"{of}_size", 1))
                 for of in ("pp", "attn_cp", "dcp")]
        if not config.is_mla_model or name == "mamba" or any(
                one.__name__ == "MHATokenToKVPoolHost" for one in type(host_pool).__mro__):
            ranks.append((config.tp_rank, config.tp_size))
        return f"{self._tag}/{name}/{ranks}"

    # ---- pools ----

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """The pool of keys and values."""
        super().register_mem_pool_host(mem_pool_host)
        if getattr(mem_pool_host, "kv_buffer", mem_pool_host) is None:
            self._pools["kv"] = None
            return
        try:
            self._pools["kv"] = _Pool(mem_pool_host, self._prefix,
                                      self._identity("kv", mem_pool_host))
        except Exception as why:
            raise ValueError(f"rmem: pages of this pool cannot be stored: {why}") from why
        self._register(mem_pool_host)

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        """A pool beside it, of a model that has several.  One that fails is missing."""
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        name = str(getattr(host_pool_name, "value", host_pool_name))
        if name == "kv":
            return
        try:
            self._pools[name] = _Pool(host_pool, self._prefix, self._identity(name, host_pool))
        except Exception as why:  # pylint: disable=broad-except
            self._door.complain(f"pages of the pool {name} cannot be stored: {why}")
            return
        self._register(host_pool)

    def _register(self, host_pool: Any) -> None:
        buffers = getattr(host_pool, "kv_buffer", None)
        for buffer in buffers if isinstance(buffers, (list, tuple)) else (buffers,):
            if buffer is not None:
                self._door.register(buffer)

    def _pool(self, name: Any) -> Optional[_Pool]:
        return self._pools.get(str(getattr(name, "value", name)))

    def _is_logical(self, name: Any) -> bool:
        return name == "kv" and self._pools.get("kv", self) is None

    # ---- pages ----

    def _move(self, opcode: int, transfers: Sequence[Any]) -> List[List[bool]]:
        """Read or store (pool, hashes, indices), in one batch."""
        keys: List[str] = []
        memories: List[Any] = []
        ranges = []
        for name, hashes, host_indices in transfers:
            pool, begin = self._pool(name), len(keys)
            try:
                if not pool:
                    raise ValueError(f"the pool {name} is not registered")
                memories += pool.memories(hashes, host_indices)
                keys += pool.keys(hashes)
            except Exception as why:  # pylint: disable=broad-except
                self._door.complain(why)
                pool = None
            ranges.append((pool, begin, len(keys), len(hashes)))
        ends = self._door.call(opcode, keys, memories)
        return [pool.pages(ends[begin:end]) if pool else [False] * n
                for pool, begin, end, n in ranges]

    def batch_get_v1(self, keys: List[str], host_indices: Any,
                     extra_info: Any = None) -> List[bool]:
        """Read pages into the pool."""
        if self._is_logical("kv"):
            return [True] * len(keys)
        return self._move(GET, [("kv", keys, host_indices)])[0]

    def batch_set_v1(self, keys: List[str], host_indices: Any,
                     extra_info: Any = None) -> List[bool]:
        """Store pages of the pool."""
        if self._is_logical("kv"):
            return [True] * len(keys)
        return self._move(PUT, [("kv", keys, host_indices)])[0]

    def _move_v2(self, opcode: int, transfers: Sequence[Any]) -> Dict[Any, List[bool]]:
        ends = self._move(opcode, [(one.name, one.keys or [], one.host_indices)
                                   for one in transfers])
        return {one.name: end for one, end in zip(transfers, ends)}

    def batch_get_v2(self, transfers: Sequence[Any],
                     extra_info: Any = None) -> Dict[Any, List[bool]]:
        """Read pages of several pools."""
        return self._move_v2(GET, transfers)

    def batch_set_v2(self, transfers: Sequence[Any],
                     extra_info: Any = None) -> Dict[Any, List[bool]]:
        """Store pages of several pools."""
        return self._move_v2(PUT, transfers)

    # ---- what there is ----

    def _found(self, names: Sequence[Any], hashes: Sequence[str]) -> List[List[bool]]:
        """Of each pool, which pages there are; in one batch."""
        pools = [self._pool(name) for name in names]
        keys = [key for pool in pools if pool for key in pool.keys(hashes)]
        ends, begin = self._door.call(EXISTS, keys), 0
        found = []
        for name, pool in zip(names, pools):
            if pool:
                end = begin + pool.pieces * len(hashes)
                found.append(pool.pages(ends[begin:end]))
                begin = end
            else:
                found.append([self._is_logical(name)] * len(hashes))
        return found

    def batch_exists(self, keys: List[str], extra_info: Any = None) -> int:
        """How many pages there are from the first on, without a gap."""
        return _leading(self._found([PoolName.KV], keys)[0])

    def batch_exists_v2(self, keys: List[str], pool_transfers: Optional[Sequence[Any]] = None,
                        extra_info: Any = None) -> PoolTransferResult:
        """How long a prefix can be restored, with what each pool needs of it."""
        transfers = [one for one in pool_transfers or ()
                     if one.hit_policy in ("all_pages", "trailing_pages")]
        found = self._found([PoolName.KV] + [one.name for one in transfers], keys)
        n = _leading(found[0])
        hits: Dict[Any, int] = {PoolName.KV: n} if n else {}
        restorable = list(range(1, n + 1))
        for one, there in zip(transfers, found[1:]):
            if one.hit_policy == "all_pages":
                good = range(1, _leading(there[:n]) + 1)
            else:
                window = max(1, len(one.keys or ()))
                good = [end for end in range(1, n + 1) if all(there[max(0, end - window):end])]
            if good:
                hits[one.name] = good[-1]
            restorable = [end for end in restorable if end in good]
        result = PoolTransferResult(restorable[-1] if restorable else 0, hits)
        result.restorable_prefix_pages = restorable
        return result

    def exists(self, key: str) -> bool:
        """Whether there is a page."""
        return self.batch_exists([key]) == 1

    # ---- of pages that SGLang would copy first: not with interface_v1 ----

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> None:
        """Not used: nothing is there."""

    def batch_get(self, keys: List[str], target_locations: Any = None,
                  target_sizes: Any = None) -> List[None]:
        """Not used: nothing is there."""
        return [None] * len(keys)

    def set(self, key: str, value: Any = None, target_location: Any = None,
            target_sizes: Any = None) -> bool:
        """Not used: nothing is stored."""
        return False

    def batch_set(self, keys: List[str], values: Any = None, target_locations: Any = None,
                  target_sizes: Any = None) -> bool:
        """Not used: nothing is stored."""
        return False

    # ---- the whole ----

    def clear(self) -> bool:
        """Delete the pages of the model, of all ranks."""
        try:
            cache = self._door.cache
            prefix = self._prefix.encode()
            keys = [one.key for one in cache.list() if one.key.startswith(prefix)] if cache else []
        except Exception as why:  # pylint: disable=broad-except
            self._door.complain(why)
            return False
        for i in range(0, len(keys), _CLEAR):
            self._door.call(DELETE, keys[i:i + _CLEAR])
        return self._door.cache is not None

    def close(self) -> None:
        """End the client."""
        self._door.close()
