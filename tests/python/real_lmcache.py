# SPDX-License-Identifier: BSD-3-Clause
"""The door to LMCache behind the classes of the release, on CPU tensors."""

import argparse
import json
import select
import unittest
from importlib import metadata

from lmcache.cli.commands.bench.l2_adapter_bench import data
from lmcache.v1.distributed.l2_adapters import create_l2_adapter
from lmcache.v1.distributed.l2_adapters.config import parse_args_to_l2_adapters_config
from lmcache.v1.platform import consume_fd

from door_case import SETTINGS, DoorCase

BYTES = 65536


def adapter_of(**wrong):
    """As the command line makes it."""
    spec = {"type": "native_plugin", "module_path": "rmem.engines.lmcache",
            "class_name": "Connector", "adapter_params": {**SETTINGS, **wrong}}
    spaces = argparse.Namespace(l2_adapter=[json.dumps(spec)])
    return create_l2_adapter(parse_args_to_l2_adapters_config(spaces).adapters[0],
                             l1_memory_desc=None)


class Real(DoorCase):
    def setUp(self):
        super().setUp()
        self.adapter = adapter_of()
        self.addCleanup(self.adapter.close)

    def wait(self, descriptor, query):
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        while True:
            self.assertTrue(poller.poll(60000))
            consume_fd(descriptor)
            result = query()
            if result:
                return result

    def store(self, keys, objects):
        task = self.adapter.submit_store_task(keys, objects)
        return self.wait(self.adapter.get_store_event_fd(),
                         self.adapter.pop_completed_store_tasks)[task]

    def bits(self, bitmap, n):
        return [bool(bitmap.test(i)) for i in range(n)]

    def lookup(self, keys):
        task = self.adapter.submit_lookup_and_lock_task(keys, {})
        return self.bits(self.wait(self.adapter.get_lookup_and_lock_event_fd(),
                                   lambda: self.adapter.query_lookup_and_lock_result(task)),
                         len(keys))

    def load(self, keys, objects):
        task = self.adapter.submit_load_task(keys, objects)
        return self.bits(self.wait(self.adapter.get_load_event_fd(),
                                   lambda: self.adapter.query_load_result(task)), len(keys))

    def test_round_trip(self):
        keys = data.make_object_keys(8, model_name="m" * 250)
        memory = data.make_aligned_tensor(16 * BYTES)
        stored = data.make_memory_objects(memory, 8, BYTES, 0, fill_offset=1)
        loaded = data.make_memory_objects(memory, 8, BYTES, 8 * BYTES)
        self.assertEqual(self.lookup(keys), [False] * 8)
        self.assertEqual(self.store(keys[:6], stored[:6]).bytes_transferred(), 6 * BYTES)
        self.assertEqual(self.lookup(keys), [True] * 6 + [False] * 2)
        self.assertEqual(self.load(keys, loaded), [True] * 6 + [False] * 2)
        self.assertTrue(data.verify_round_trip(keys[:6], stored[:6], loaded[:6], print))
        self.adapter.submit_unlock(keys)
        self.adapter.delete(keys)
        self.assertEqual(self.lookup(keys), [False] * 8)
        self.assertTrue(self.adapter.report_status()["is_healthy"])
        self.assertEqual(self.warnings, [])

    def test_wrong(self):
        self.refuses(adapter_of, bytes=("x",), servers=([],), nonsense=(1,))


if __name__ == "__main__":
    print("lmcache", metadata.version("lmcache"))
    unittest.main()
