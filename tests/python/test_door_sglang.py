# SPDX-License-Identifier: BSD-3-Clause
"""The door to SGLang, as the cache controllers of sglang 0.5.23 call it."""

import ctypes
import os
import threading

import recorded_sglang as recorded
import rmem
from door_case import SETTINGS, DoorCase, keys_of, other_process
from recorded_sglang import Indices, PoolHitPolicy, PoolName, PoolTransfer

recorded.install()

from rmem.engines.sglang import Storage  # noqa: E402 pylint: disable=wrong-import-position

PAGE = 4  # tokens
HASHES = [f"{i:064x}" for i in range(8)]


class Pool:
    """Like MHATokenToKVPoolHost of page_first: keys and values of a page are a piece each."""
    page_size = PAGE
    dtype = "torch.bfloat16"
    layout = "page_first"

    def __init__(self, pieces=2, piece_bytes=4096, pages=16):
        self.pieces, self.piece_bytes = pieces, piece_bytes
        self.memory = bytearray(pages * pieces * piece_bytes)
        self.kv_buffer = [memoryview(self.memory)]
        self.base = ctypes.addressof((ctypes.c_char * len(self.memory)).from_buffer(self.memory))

    def get_page_buffer_meta(self, indices):
        assert len(indices) % self.page_size == 0
        pages = [index // self.page_size for index in indices.tolist()[::self.page_size]]
        addresses = [self.base + (page * self.pieces + i) * self.piece_bytes
                     for page in pages for i in range(self.pieces)]
        return addresses, [self.piece_bytes] * len(addresses)

    def page(self, i):
        length = self.pieces * self.piece_bytes
        return memoryview(self.memory)[i * length:(i + 1) * length]

    def fill(self, n):
        for i in range(n):
            self.page(i)[:] = os.urandom(len(self.page(i)))


def indices(first, n):
    return Indices(range(first * PAGE, (first + n) * PAGE))


def config(**changes):
    settings = changes.pop("rmem", SETTINGS)
    extra = {"backend_name": "rmem", "module_path": "rmem.engines.sglang", "class_name": "Storage",
             "interface_v1": 1, "rmem": settings, **changes.pop("extra", {})}
    return recorded.HiCacheStorageConfig(**{
        "tp_rank": 0, "tp_size": 2, "pp_rank": 0, "pp_size": 1, "attn_cp_rank": 0,
        "attn_cp_size": 1, "is_mla_model": False, "enable_storage_metrics": True,
        "is_page_first_layout": True, "model_name": "meta/llama", "extra_config": extra, **changes})


class SGLang(DoorCase):
    def backend(self, pool=None, **changes):
        storage = Storage(config(**changes), {})
        self.addCleanup(storage.close)
        storage.register_mem_pool_host(pool or Pool())
        storage.on_host_pools_registered()
        return storage

    def test_pages(self):
        pool = Pool()
        storage = self.backend(pool, model_name="pages")
        pool.fill(8)
        self.assertEqual(storage.batch_exists(HASHES), 0)
        self.assertEqual(storage.batch_set_v1(HASHES[:6], indices(0, 6)), [True] * 6)
        self.assertEqual(storage.batch_exists(HASHES), 6)
        self.assertEqual(storage.batch_exists(HASHES[7:] + HASHES[:6]), 0)
        self.assertEqual(storage.batch_get_v1(HASHES, indices(8, 8)), [True] * 6 + [False] * 2)
        for i in range(6):
            self.assertEqual(pool.page(8 + i), pool.page(i))
        self.assertTrue(storage.exists(HASHES[0]))
        self.assertFalse(storage.exists(HASHES[7]))
        self.assertIsNone(storage.get_stats())
        self.assertEqual(self.warnings, [])

    def test_another_rank_type_or_layout_has_other_pages(self):
        pool = Pool()
        pool.fill(1)
        storage = self.backend(pool, model_name="ranks")
        storage.batch_set_v1(HASHES[:1], indices(0, 1))
        for changes in ({"tp_rank": 1}, {"pp_rank": 1, "pp_size": 2}, {"tp_size": 4},
                        {"attn_cp_rank": 1}, {"extra": {"extra_backend_tag": "other"}},
                        {"is_mla_model": True}, {"model_name": "x" * 300}):
            other = self.backend(Pool(), **{"model_name": "ranks", **changes})
            self.assertEqual(other.batch_exists(HASHES[:1]), 0, changes)
        for name, value in (("dtype", "torch.float16"), ("layout", "layer_first"),
                            ("piece_bytes", 2048)):
            changed = Pool()
            setattr(changed, name, value)
            other = self.backend(changed, model_name="ranks")
            self.assertEqual(other.batch_exists(HASHES[:1]), 0, name)
        self.assertEqual(self.backend(model_name="ranks", dp_rank=1).batch_exists(HASHES[:1]), 1)

    def test_all_ranks_of_an_mla_model_share(self):
        pool = Pool(pieces=1)
        pool.fill(2)
        mine = self.backend(pool, is_mla_model=True, model_name="mla")
        self.assertEqual(mine.batch_set_v1(HASHES[:2], indices(0, 2)), [True] * 2)
        theirs = self.backend(Pool(pieces=1), is_mla_model=True, model_name="mla", tp_rank=1)
        self.assertEqual(theirs.batch_exists(HASHES), 2)
        # but not the state of Mamba, of which each rank has its own
        for storage in (mine, theirs):
            storage.register_mem_host_pool_v2(Pool(), PoolName.MAMBA)
        mamba = [PoolTransfer(PoolName.MAMBA, indices(0, 1), keys=HASHES[:1])]
        self.assertEqual(mine.batch_set_v2(mamba), {PoolName.MAMBA: [True]})
        self.assertEqual(theirs.batch_get_v2(mamba), {PoolName.MAMBA: [False]})

    def test_keys_are_those_of_every_process(self):
        self.backend(model_name="process").batch_set_v1(HASHES[:1], indices(0, 1))
        keys = other_process("import test_door_sglang as t; s = t.Storage(t.config("
                             "model_name='process')); s.register_mem_pool_host(t.Pool());"
                             "print(' '.join(s._pool('kv').keys(t.HASHES[:1])))").split()
        self.assertEqual(keys, [key for key in keys_of("sglang") if "/process/" in key])

    def test_several_pools(self):
        pools = {PoolName.KV: Pool(), PoolName.SWA: Pool(pieces=1), PoolName.INDEXER: Pool(1, 512)}
        storage = self.backend(pools[PoolName.KV], model_name="hybrid")
        for name, pool in pools.items():
            storage.register_mem_host_pool_v2(pool, name)
            pool.fill(8)
        storage.on_host_pools_registered()
        storage.batch_set_v1(HASHES[:6], indices(0, 6))
        swa = PoolTransfer(PoolName.SWA, indices(2, 2), keys=HASHES[2:4],
                           hit_policy=PoolHitPolicy.TRAILING_PAGES)
        indexer = PoolTransfer(PoolName.INDEXER, indices(0, 5), keys=HASHES[:5])
        groups = PoolTransfer(PoolName.MAMBA, keys=HASHES[:1],
                              hit_policy=PoolHitPolicy.BLOCK_GROUPS)
        self.assertEqual(storage.batch_set_v2([swa, indexer]),
                         {PoolName.SWA: [True] * 2, PoolName.INDEXER: [True] * 5})
        result = storage.batch_exists_v2(HASHES, [swa, indexer, groups])
        self.assertEqual((result.kv_hit_pages, result.restorable_prefix_pages), (4, [4]))
        self.assertEqual(result.extra_pool_hit_pages,
                         {PoolName.KV: 6, PoolName.SWA: 4, PoolName.INDEXER: 5})
        self.assertEqual(storage.batch_exists_v2(HASHES).kv_hit_pages, 6)
        swa.host_indices = indices(8, 2)
        self.assertEqual(storage.batch_get_v2([swa]), {PoolName.SWA: [True] * 2})
        self.assertEqual(pools[PoolName.SWA].page(8), pools[PoolName.SWA].page(2))
        result = storage.batch_exists_v2(HASHES[6:], [swa])
        self.assertEqual((result.kv_hit_pages, result.extra_pool_hit_pages), (0, {}))

    def test_pages_without_keys_and_values_are_counted(self):
        pool = Pool()
        pool.kv_buffer = None
        storage = self.backend(pool, model_name="logical")
        storage.register_mem_host_pool_v2(Pool(), PoolName.SWA)
        self.assertEqual(storage.batch_get_v1(HASHES, indices(0, 8)), [True] * 8)
        self.assertEqual(storage.batch_set_v1(HASHES, indices(0, 8)), [True] * 8)
        swa = PoolTransfer(PoolName.SWA, indices(0, 3), keys=HASHES[:3])
        storage.batch_set_v2([swa])
        self.assertEqual(storage.batch_exists_v2(HASHES, [swa]).kv_hit_pages, 3)
        self.assertEqual(storage.batch_exists_v2(HASHES, []).kv_hit_pages, 8)

    def test_pools_are_registered_once(self):
        pools = [Pool(), Pool()]
        storage = self.backend(pools[0], model_name="registered")
        storage.register_mem_host_pool_v2(pools[1], PoolName.SWA)
        for pool in pools:
            storage._door.cache.unregister(pool.kv_buffer[0])
            with self.assertRaises(rmem.NotFound):
                storage._door.cache.unregister(pool.kv_buffer[0])

    def test_failures(self):
        storage = self.backend(model_name="failures")
        # what the engine never does is no exception, nor is a pool that was not registered
        self.assertEqual(storage.batch_get_v1(HASHES, indices(0, 7)), [False] * 8)
        self.assertEqual(storage.batch_set_v1(HASHES, None), [False] * 8)
        mamba = PoolTransfer(PoolName.MAMBA, indices(0, 1), keys=HASHES[:1])
        self.assertEqual(storage.batch_set_v2([mamba]), {PoolName.MAMBA: [False]})
        self.assertEqual(storage.batch_exists_v2(HASHES, [mamba]).kv_hit_pages, 0)
        self.assertEqual(storage.batch_get_v2([PoolTransfer(PoolName.MAMBA)]),
                         {PoolName.MAMBA: []})
        storage.register_mem_host_pool_v2(object(), PoolName.SWA)
        self.assertEqual(len(self.warnings), 1)
        with self.assertRaisesRegex(ValueError, "pages of this pool"):
            storage.register_mem_pool_host(object())
        # without interface_v1, which is refused, SGLang would call these
        self.assertEqual((storage.get("k"), storage.batch_get(["k"]), storage.set("k", 1),
                          storage.batch_set(["k"], [1])), (None, [None], False, False))
        storage.close()
        self.assertEqual(storage.batch_exists(HASHES), 0)
        self.assertEqual(storage.batch_set_v1(HASHES[:1], indices(0, 1)), [False])
        self.assertFalse(storage.clear())

    def test_two_threads(self):
        pool, failures = Pool(pages=64), []
        storage = self.backend(pool, rmem={**SETTINGS, "name": "threads", "bytes": "64M"})
        pool.fill(32)

        def work(first):
            for i in range(30):
                hashes = [f"{first}-{i}-{j}" for j in range(8)]
                if not (all(storage.batch_set_v1(hashes, indices(first, 8))) and
                        storage.batch_exists(hashes) == 8 and
                        all(storage.batch_get_v1(hashes, indices(32 + first, 8)))):
                    failures.append(i)
        threads = [threading.Thread(target=work, args=(first,)) for first in (0, 8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_clear(self):
        storage = self.backend(model_name="clear")
        other = self.backend(model_name="clearly")
        for one in (storage, other):
            one.batch_set_v1(HASHES, indices(0, 8))
        self.assertTrue(storage.clear())
        keys = keys_of("sglang")
        self.assertEqual([key for key in keys if key.startswith("sglang/clear/")], [])
        self.assertEqual(other.batch_exists(HASHES), 8)

    def test_wrong(self):
        self.refuses(lambda **settings: Storage(config(rmem=settings), {}),
                     servers=(None, []), bytes=("x",), nonsense=(1,))
        for extra in ({"rmem": None}, {"rmem": "x"}, {"interface_v1": 0}):
            with self.assertRaisesRegex(ValueError, f'rmem: .*{list(extra)[0]}'):
                Storage(config(extra=extra), {})
