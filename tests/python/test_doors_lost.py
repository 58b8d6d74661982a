# SPDX-License-Identifier: BSD-3-Clause
"""Doors whose server dies, comes back, and is not there at the start."""

import os
import signal
import socket
import subprocess
import time

import rmem
from door_case import SETTINGS, DoorCase
from rmem.engines import door
from rmem.engines.lmcache import Connector
from stage import URI
import test_door_vllm
from test_door_lmcache import Adapter, key, memory_of
from test_door_sglang import HASHES, Pool, Storage, config, indices

PORT = int(URI.rpartition(":")[2].partition("?")[0])


class Server:
    """The daemon of the shell, which has stopped it."""

    def __init__(self):
        self.process = subprocess.Popen([os.environ["RMEMD"], "--config", os.environ["CONFIG"]],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", PORT)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise RuntimeError("rmemd has ended")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Lost(DoorCase):
    def setUp(self):
        super().setUp()
        self.server = Server()
        self.addCleanup(lambda: self.server.kill())

    def again(self, call):
        """Until the server is open again, which the doors try all the time."""
        while not call():
            time.sleep(0.1)

    def test_lmcache(self):
        client = Connector(**SETTINGS, timeout=2)
        adapter = Adapter(client)
        self.addCleanup(adapter.close)
        keys = [key("lost", i) for i in range(4)]
        data = [memory_of(os.urandom(4096)) for _ in keys]
        self.again(lambda: adapter.store(keys, data)[0])
        self.warnings.clear()
        client._door._quiet_until = 0
        self.server.kill()
        reads = client._door.cache.stat()["reads"]
        for _ in range(200):  # only those of the first time-out are sent
            self.assertEqual(adapter.lookup(keys), [False] * 4)
            self.assertEqual(adapter.load(keys, data), [False] * 4)
            self.assertEqual(adapter.delete(keys), [False] * 4)
            ok, why, ends = adapter.store(keys, data)
            self.assertEqual((ok, ends), (False, [False] * 4))
            self.assertTrue(why)
        self.assertLess(client._door.cache.stat()["reads"] - reads, 100)
        self.assertEqual(len(self.warnings), 1)
        self.server = Server()
        self.again(lambda: adapter.store(keys, data)[0])
        self.assertEqual(adapter.lookup(keys), [True] * 4)
        self.assertTrue(adapter.thread.is_alive())

    def test_sglang(self):
        storage = Storage(config(rmem={**SETTINGS, "timeout": 2}), {})
        self.addCleanup(storage.close)
        storage.register_mem_pool_host(Pool())
        self.again(lambda: all(storage.batch_set_v1(HASHES, indices(0, 8))))
        self.server.kill()
        for _ in range(200):
            self.assertEqual(storage.batch_exists(HASHES), 0)
            self.assertEqual(storage.batch_exists_v2(HASHES).kv_hit_pages, 0)
            self.assertEqual(storage.batch_get_v1(HASHES, indices(0, 8)), [False] * 8)
            self.assertEqual(storage.batch_set_v1(HASHES, indices(0, 8)), [False] * 8)
        storage.clear()
        self.server = Server()
        self.again(lambda: all(storage.batch_set_v1(HASHES, indices(0, 8))))
        self.assertEqual(storage.batch_exists(HASHES), 8)

    def test_vllm(self):
        memory = os.urandom(16 * test_door_vllm.CHUNK)
        tier = test_door_vllm.tier_of(bytearray(memory), timeout=2)
        self.addCleanup(tier.shutdown)
        lookup, job = test_door_vllm.VLLM.lookup, test_door_vllm.VLLM.job
        keys = test_door_vllm.KEYS
        self.again(lambda: job(self, tier, 1, keys, 0).success)
        self.server.kill()
        for i in range(20):
            self.assertEqual(lookup(self, tier, keys, str(i)), [False] * 8)
            self.assertFalse(job(self, tier, 2, keys, 0).success)
            self.assertFalse(job(self, tier, 3, keys, 8, load=True).success)
        self.server = Server()
        self.again(lambda: job(self, tier, 4, keys, 0).success)
        self.assertEqual(lookup(self, tier, keys, "again"), [True] * 8)
        self.assertTrue(job(self, tier, 5, keys, 8, load=True).success)

    def test_memory_is_registered_once_a_server_is_there(self):
        self.server.kill()
        one = door.Door(**SETTINGS, name="register", timeout=2)
        self.addCleanup(one.close)
        memory = bytearray(8192)
        one.register(memory)
        self.server = Server()
        self.again(lambda: one.cache)
        one.cache.unregister(memory)
        with self.assertRaises(rmem.NotFound):
            one.cache.unregister(memory)

    def test_away_at_the_start(self):
        self.server.kill()
        client = Connector(**SETTINGS, timeout=2)
        adapter = Adapter(client)
        self.addCleanup(adapter.close)
        data = memory_of(b"value")
        self.assertEqual(adapter.lookup([key("away")]), [False])
        self.assertEqual(adapter.store([key("away")], [data])[::2], (False, [False]))
        self.assertIn("missing", self.warnings[0])
        self.server = Server()
        self.again(lambda: adapter.store([key("away")], [data])[0])
        self.assertEqual(adapter.lookup([key("away")]), [True])

    def test_closed_before_it_was_there(self):
        self.server.kill()
        opened = door.Door([URI], "lmcache")
        opened.close()
        self.assertIsNone(opened.cache)
        self.server = Server()
