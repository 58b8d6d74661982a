# SPDX-License-Identifier: BSD-3-Clause
"""python.py URI REDIS-PORT MEMCACHED-PORT MOONCAKE-PORT C-PROGRAM ROUNDS MILLISECONDS: what
python.sh measures.  A port of 0: without that store.

Prints a line for each cell: {"way": ..., "op": ..., "bytes": ..., "per_s": {PROGRAM: ...}}."""

import array
import asyncio
import ctypes
import json
import subprocess
import sys
import time

import pymemcache
import redis
import redis.asyncio

import rmem
from rmem import aio

SIZES = (64, 4096, 65536, 1 << 20)
WAYS = {"call": 1, "asyncio": 100, "batch": 64}  # operations at a time
MOST = max(WAYS.values())


def rate(step, n, seconds):
    """Operations per second of calls that make n of them each."""
    calls = 1 + 4096 // n // 64  # between two looks at the clock
    done, begin = 0, time.perf_counter()
    while True:
        for _ in range(calls):
            step()
        done += calls * n
        now = time.perf_counter()
        if now - begin >= seconds:
            return done / (now - begin)


async def async_rate(step, n, seconds):
    done, begin = 0, time.perf_counter()
    while True:
        await step()
        done += n
        now = time.perf_counter()
        if now - begin >= seconds:
            return done / (now - begin)


class Rmem:
    """Reads and writes in place, each range in memory of its own."""

    def __init__(self, uri, loop):
        self.session = rmem.open(uri)
        self.lease = self.session.alloc(MOST << 20)
        self.loop = loop

    def steps(self, way, op, size):
        n = WAYS[way]
        blocks = [bytearray(b"x" * size) for _ in range(n)]
        offsets = list(range(0, n * size, size))
        if way == "call":
            call, block = getattr(self.lease, {"read": "read_into"}.get(op, op)), blocks[0]
            return [lambda: call(block, 0)]
        if way == "batch":
            many = getattr(self.lease, op + "_many")
            whole, array_offsets = bytearray(b"x" * (n * size)), array.array("Q", offsets)
            return [lambda: many(blocks, offsets), lambda: many(whole, array_offsets)]
        lease = aio.Lease(self.lease)
        one = getattr(lease, {"read": "read_into"}.get(op, op))

        async def futures():
            for future in [one(block, offset) for block, offset in zip(blocks, offsets)]:
                await future
        return [futures, lambda: getattr(lease, op + "_many")(blocks, offsets)]


class Redis:
    """Each call that redis-py has for the cell."""

    def __init__(self, port, loop):
        self.redis = redis.Redis("127.0.0.1", port, single_connection_client=True)
        assert "Hiredis" in type(self.redis.connection._parser).__name__, "redis-py lacks hiredis"
        self.loop = loop
        self.aio = redis.asyncio.Redis(host="127.0.0.1", port=port)

    def steps(self, way, op, size):
        n = WAYS[way]
        values = {f"{size}:{i}": b"x" * size for i in range(n)}
        keys = list(values)
        self.redis.mset(values)
        if way == "call":
            key, value = f"{size}:0", values[f"{size}:0"]
            if op == "read":
                return [lambda: self.redis.get(key)]
            return [lambda: self.redis.set(key, value)]
        client = self.redis if way == "batch" else self.aio

        def pipeline():
            pipe = client.pipeline(transaction=False)
            for key in keys:
                if op == "read":
                    pipe.get(key)
                else:
                    pipe.set(key, values[key])
            return pipe.execute()
        if op == "read":
            return [pipeline, lambda: client.mget(keys)]
        return [pipeline, lambda: client.mset(values)]


class Memcached:
    """pymemcache, which has no asyncio; a write waits for its answer."""

    def __init__(self, port):
        self.client = pymemcache.Client(("127.0.0.1", port), no_delay=True, default_noreply=False)

    def steps(self, way, op, size):
        n = WAYS[way]
        values = {f"{size}:{i}": b"x" * size for i in range(n)}
        keys = list(values)
        if way == "asyncio":
            return []
        assert not self.client.set_many(values, noreply=False), "memcached has no room"
        if way == "call":
            key, value = keys[0], values[keys[0]]
            if op == "read":
                return [lambda: self.client.get(key)]
            return [lambda: self.client.set(key, value, noreply=False)]
        if op == "read":
            return [lambda: self.client.get_many(keys)]
        return [lambda: self.client.set_many(values, noreply=False)]


class Mooncake:
    """Calls that copy from and to memory that is registered; the async ones are threads."""

    def __init__(self, port):
        from mooncake.async_store import (  # pylint: disable=import-outside-toplevel
            MooncakeDistributedStoreAsync)
        self.store = MooncakeDistributedStoreAsync()
        assert self.store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "",
                                f"127.0.0.1:{port}") == 0
        self.memory = bytearray(MOST << 20)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        assert self.store.register_buffer(self.address, len(self.memory)) == 0

    def steps(self, way, op, size):
        n = WAYS[way]
        keys = [f"{size}:{i}" for i in range(n)]
        addresses = [self.address + i * size for i in range(n)]
        sizes = [size] * n
        assert self.store.batch_upsert_from(keys, addresses, sizes) == [0] * n
        if way == "call":
            one = self.store.get_into if op == "read" else self.store.upsert_from
            return [lambda: one(keys[0], addresses[0], size)]
        call = "batch_get_into" if op == "read" else "batch_upsert_from"
        if way == "batch":
            many = getattr(self.store, call)
            return [lambda: many(keys, addresses, sizes)]
        many_async = getattr(self.store, "async_" + call)
        return [lambda: many_async(keys, addresses, sizes)]


class Loop:
    """The loop in C, for batches."""

    def __init__(self, program, uri):
        self.process = subprocess.Popen([program, uri], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def rate(self, op, size, seconds):
        print(op, size, WAYS["batch"], round(seconds * 1000), file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(way, op, size, programs, c_loop, rounds, seconds, loop):
    """The best window of each program, in turns."""
    steps = [(name, step) for name, program in programs.items()
             for step in program.steps(way, op, size)]
    best = {}
    for _ in range(rounds):
        for name, step in steps:
            if way == "asyncio":
                one = loop.run_until_complete(async_rate(step, WAYS[way], seconds))
            else:
                one = rate(step, WAYS[way], seconds)
            best[name] = max(best.get(name, 0), one)
        if way == "batch":
            best["c"] = max(best.get("c", 0), c_loop.rate(op, size, seconds))
    return {name: round(one) for name, one in best.items()}


def main(uri, redis_port, memcached_port, mooncake_port, c_program, rounds, ms):
    loop = asyncio.new_event_loop()
    programs = {"rmem": Rmem(uri, loop), "redis": Redis(int(redis_port), loop),
                "memcached": Memcached(int(memcached_port))}
    if int(mooncake_port):
        programs["mooncake"] = Mooncake(int(mooncake_port))
    c_loop = Loop(c_program, uri)
    for way in WAYS:
        for op in ("read", "write"):
            for size in SIZES:
                per_s = measure(way, op, size, programs, c_loop, int(rounds), int(ms) / 1000, loop)
                print(json.dumps({"way": way, "op": op, "bytes": size, "per_s": per_s}),
                      flush=True)
    loop.run_until_complete(programs["redis"].aio.close())
    c_loop.close()


main(*sys.argv[1:])
