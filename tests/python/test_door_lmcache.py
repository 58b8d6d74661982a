# SPDX-License-Identifier: BSD-3-Clause
"""The door to LMCache, as lmcache 0.5.6 calls it: NativeConnectorL2Adapter of
lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter."""

import ctypes
import os
import select
import threading

import rmem
from door_case import SETTINGS, DoorCase, keys_of, other_process
from rmem.engines import door
from rmem.engines.lmcache import Connector
from stage import URI

CHUNK = 65536


class Adapter:
    """Calls the client like NativeConnectorL2Adapter: any thread submits, one drains."""

    def __init__(self, client):
        for method in ("event_fd", "submit_batch_get", "submit_batch_set", "submit_batch_exists",
                       "drain_completions", "close"):
            assert callable(getattr(client, method))
        self.client = client
        self.lock = threading.Lock()
        self.pending = {}
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.demux)
        self.thread.start()

    def demux(self):
        poller = select.poll()
        poller.register(int(self.client.event_fd()), select.POLLIN)
        while not self.stop.is_set():
            if not poller.poll(50):
                continue
            for future_id, ok, error, bools in self.client.drain_completions():
                with self.lock:
                    event, result = self.pending.pop(int(future_id))
                result.extend((ok, error, bools))
                event.set()

    def call(self, submit, *args):
        event, result = threading.Event(), []
        with self.lock:
            self.pending[int(submit(*args))] = event, result
        if not event.wait(60):
            raise TimeoutError("no completion")
        return tuple(result)

    def store(self, keys, memories):
        return self.call(self.client.submit_batch_set, keys, memories)

    def lookup(self, keys):
        return self.call(self.client.submit_batch_exists, keys)[2]

    def load(self, keys, memories):
        return self.call(self.client.submit_batch_get, keys, memories)[2]

    def delete(self, keys):
        return self.call(self.client.submit_batch_delete, keys)[2]

    def close(self):
        self.stop.set()
        self.thread.join(timeout=5)
        self.client.close()


def key(name, i=0):
    """A key as _object_key_to_string() makes it."""
    return f"meta/llama@{1 << 24:08x}@0@{name.encode().hex():0>62}{i:02x}"


def memory_of(data):
    """As byte_array of a MemoryObj is: a view of an array of ctypes on the memory of L1."""
    return memoryview((ctypes.c_ubyte * len(data))(*data))


class LMCache(DoorCase):
    def setUp(self):
        super().setUp()
        self.client = Connector(**SETTINGS)
        self.adapter = Adapter(self.client)
        self.addCleanup(self.adapter.close)

    def test_batches(self):
        keys = [key("batch", i) for i in range(8)]
        data = [memory_of(os.urandom(CHUNK)) for _ in keys]
        self.assertEqual(self.adapter.lookup(keys), [False] * 8)
        self.assertEqual(self.adapter.store(keys, data), (True, "", [True] * 8))
        self.assertEqual(self.adapter.lookup(keys + [key("none")]), [True] * 8 + [False])
        into = [memory_of(bytes(CHUNK)) for _ in range(9)]
        self.assertEqual(self.adapter.load(keys + [key("none")], into), [True] * 8 + [False])
        self.assertEqual([bytes(one) for one in into[:8]], [bytes(one) for one in data])
        self.assertEqual(self.adapter.delete(keys + [key("none")]), [True] * 8 + [False])
        self.assertEqual(self.adapter.store([], [])[:2], (True, ""))
        self.assertEqual(self.warnings, [])

    def test_what_is_there_is_not_written_again(self):
        keys = [key("twice", i) for i in range(4)]
        data = [memory_of(os.urandom(CHUNK)) for _ in keys]
        self.adapter.store(keys[:2], data[:2])
        stored = self.client._door.cache.stat()["stored"]
        self.assertEqual(self.adapter.store(keys, data), (True, "", [True] * 4))
        self.assertEqual(self.client._door.cache.stat()["stored"], stored + 2)

    def test_another_length_is_missing(self):
        self.adapter.store([key("length")], [memory_of(bytes(100))])
        for length in (99, 101):
            into = memory_of(bytes(length))
            self.assertEqual(self.adapter.load([key("length")], [into]), [False])

    def test_failures(self):
        long = memory_of(bytes(6 << 20))  # more than half of the cache
        ok, error, ends = self.adapter.store([key("big"), key("small")],
                                             [long, memory_of(b"small")])
        self.assertEqual((ok, ends), (False, [False, True]))
        self.assertIn("half", error)
        self.assertIn("half", self.warnings[0])
        # what LMCache never does is no exception either
        for call, args in ((self.client.submit_batch_set, ([key("a")], [])),
                           (self.client.submit_batch_set, ([key("a")], [1])),
                           (self.client.submit_batch_get, ([key("a")], [memoryview(b"const")])),
                           (self.client.submit_batch_get, ([key("a")], []))):
            ok, error, ends = self.adapter.call(call, *args)
            self.assertEqual(ends, [False])
            self.assertTrue(error)
        self.assertEqual(len(self.warnings), 1)  # others within a minute are not logged

    def test_two_threads(self):
        failures = []

        def work(name):
            for i in range(30):
                keys = [key(f"{name}{i}", j) for j in range(4)]
                data = [memory_of(os.urandom(4096)) for _ in keys]
                into = [memory_of(bytes(4096)) for _ in keys]
                if not (self.adapter.store(keys, data)[0] and all(self.adapter.lookup(keys)) and
                        all(self.adapter.load(keys, into)) and into == data):
                    failures.append(i)
        threads = [threading.Thread(target=work, args=(name,)) for name in ("store", "prefetch")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_keys_are_those_of_every_process(self):
        salted = f"{key('salt')}@{'s' * 300}"
        there = other_process(f"from rmem.engines.door import key_of; print(key_of({salted!r}))")
        self.assertEqual(door.key_of(salted), there)
        self.assertEqual(door.key_of(key("salt")), key("salt"))
        self.adapter.store([salted, key("plain")], [memory_of(b"1"), memory_of(b"2")])
        self.assertEqual(self.adapter.lookup([salted, key("salt")]), [True, False])
        self.assertTrue({there, key("plain")} <= set(keys_of("lmcache")))

    def test_closed(self):
        self.adapter.store([key("closed")], [memory_of(b"1")])
        self.adapter.close()
        self.adapter.close()
        number = self.client.submit_batch_exists([key("closed")])
        (done, _, why, ends), = self.client.drain_completions()
        self.assertEqual((done, ends), (number, [False]))
        self.assertIn("closed", why)


class Settings(DoorCase):
    def test_wrong(self):
        self.refuses(Connector, servers=(None, [], 3, [3], ""), name=("", None, 3),
                     bytes=(-1, "x", "1.5G", None, [1], True), timeout=(0, -1, "1", None, True),
                     nonsense=(1,))
        with self.assertRaises(rmem.NotFound):
            Connector([URI], "lmcache-none")
        with self.assertRaisesRegex(rmem.Invalid, "server 1 is server 0"):
            Connector([URI, URI])

    def test_bytes(self):
        for text, value in (("64G", 64 << 30), ("1GiB", 1 << 30), (4096, 4096),
                            ("512mb", 512 << 20), ("7", 7), ("2T", 2 << 40)):
            self.assertEqual(door._bytes_of(text), value)
