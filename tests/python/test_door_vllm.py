# SPDX-License-Identifier: BSD-3-Clause
"""The door to vLLM, as the TieringOffloadingManager of vllm 0.33.0 calls it."""

import os
import time
from types import SimpleNamespace

import recorded_vllm as recorded
import rmem
from door_case import SETTINGS, DoorCase, other_process
from recorded_vllm import LookupResult, ReqContext, TransferJob

recorded.install()

from rmem.engines.vllm import Tier  # noqa: E402 pylint: disable=wrong-import-position

CHUNK = 4096
KEYS = [i.to_bytes(36, "big") for i in range(8)]


def spec(model="llama", rank=0):
    parallel = SimpleNamespace(rank=rank, tp_size=2, pp_size=1, pcp_size=1, dcp_size=1)
    return SimpleNamespace(config=SimpleNamespace(
        model=SimpleNamespace(name=model, dtype="bfloat16"), parallel=parallel,
        cache=SimpleNamespace(tokens_per_hash=16, blocks_per_chunk=1),
        groups=(SimpleNamespace(tokens_per_block=16, layer_names=("a", "b")),),
        canonical_layout=False, kv_cache_layout=None))


def tier_of(memory=None, of=None, made=Tier, **changes):
    view = memoryview(memory or bytearray(16 * CHUNK)).cast("B", (16, CHUNK))
    changes.pop("type", None)  # as the factory of tiers does
    changes.pop("module_path", None)
    return made(offloading_spec=of or spec(), primary_kv_view=view, tier_type="Tier",
                backpressure_detector=None, **{**SETTINGS, **changes})


class VLLM(DoorCase):
    def tier(self, memory=None, **changes):
        tier = tier_of(memory, **changes)
        self.addCleanup(tier.shutdown)
        return tier

    def lookup(self, tier, keys, request="r"):
        context = ReqContext(request)
        tier.on_new_request(context)
        ends = [tier.lookup(key, context) for key in keys]
        self.assertEqual(ends, [LookupResult.RETRY] * len(keys))
        tier.on_schedule_end(None)
        while LookupResult.RETRY in ends:
            time.sleep(0.001)
            ends = [tier.lookup(key, context) for key in keys]
        tier.on_request_finished(context)
        return [end is LookupResult.HIT for end in ends]

    def job(self, tier, number, keys, first, load=False):
        job = TransferJob(number, keys, range(first, first + len(keys)), load, ReqContext("r"))
        (tier.submit_load if load else tier.submit_store)(job)
        tier.drain_jobs()
        result, = tier.get_finished_jobs()
        self.assertEqual(result.job_id, number)
        return result

    def test_jobs(self):
        memory = bytearray(os.urandom(16 * CHUNK))
        tier = self.tier(memory)
        self.assertEqual(self.lookup(tier, KEYS), [False] * 8)
        self.assertTrue(self.job(tier, 1, KEYS[:6], 0).success)
        self.assertEqual(self.lookup(tier, KEYS, "again"), [True] * 6 + [False] * 2)
        self.assertTrue(self.job(tier, 2, KEYS[:6], 8, load=True).success)
        self.assertEqual(memory[8 * CHUNK:14 * CHUNK], memory[:6 * CHUNK])
        result = self.job(tier, 3, KEYS[5:7], 8, load=True)
        self.assertEqual((result.success, result.successful_keys), (False, (KEYS[5],)))
        self.assertEqual(list(tier.get_finished_jobs()), [])
        self.assertEqual(self.warnings, [])

    def test_memory_is_registered_once(self):
        tier = self.tier()
        tier._door.cache.unregister(tier._memory)
        with self.assertRaises(rmem.NotFound):
            tier._door.cache.unregister(tier._memory)

    def test_another_model_or_rank_has_other_chunks(self):
        self.job(self.tier(of=spec("mine")), 1, KEYS, 0)
        self.assertEqual(self.lookup(self.tier(of=spec("mine")), KEYS), [True] * 8)
        for other in (spec("mine", rank=1), spec("other")):
            self.assertEqual(self.lookup(self.tier(of=other), KEYS), [False] * 8)

    def test_keys_are_those_of_every_process(self):
        there = other_process("import test_door_vllm as t; r = t.tier_of(); print(r._prefix);"
                              "r.shutdown()")
        self.assertEqual(self.tier()._prefix, there)

    def test_wrong(self):
        self.refuses(tier_of, servers=((), None), bytes=("x",), nonsense=(1,))
