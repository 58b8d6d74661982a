# SPDX-License-Identifier: BSD-3-Clause
"""vLLM, tiered offloading: a secondary tier; see vllm.md."""

import hashlib
import os
import queue
import select
import threading
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from vllm.v1.kv_offload.base import LookupResult, RequestOffloadingContext
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager

from .door import EXISTS, GET, PUT, Door

__all__ = ["Tier"]


def _identity(config: Any) -> str:
    """What decides the bytes of a chunk beside its tokens."""
    parallel = config.parallel
    groups = [(group.tokens_per_block, list(group.layer_names)) for group in config.groups]
    return repr((config.model.name, str(config.model.dtype), config.cache.tokens_per_hash,
                 config.cache.blocks_per_chunk, groups, parallel.rank, parallel.tp_size,
                 parallel.pp_size, parallel.pcp_size, parallel.dcp_size,
                 config.canonical_layout, config.kv_cache_layout))


class Tier(SecondaryTierManager):
    """Chunks of vLLM in a cache of rmem.  The parameters of the tier are those of
    rmem.engines.door.Door.  A thread calls the cache, so that the scheduler never waits."""

    def __init__(self, offloading_spec: Any, primary_kv_view: memoryview, tier_type: str,
                 servers: Union[str, Sequence[str]] = (), name: str = "vllm",
                 bytes: Union[int, str] = 0, timeout: float = 10, client: Optional[str] = None,
                 backpressure_detector: Any = None):
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        self._chunk = primary_kv_view.strides[0]
        self._memory = primary_kv_view.cast("B")
        identity = _identity(offloading_spec.config) + f"/{self._chunk}"
        self._prefix = f"vllm/{hashlib.sha256(identity.encode()).hexdigest()[:32]}/"
        self._asked: Dict[str, Dict[Any, Optional[bool]]] = {}  # by request
        self._to_ask: Dict[str, List[Any]] = {}
        self._jobs: Dict[int, Tuple[Any, float]] = {}
        self._to_do: queue.SimpleQueue = queue.SimpleQueue()
        self._ended: queue.SimpleQueue = queue.SimpleQueue()
        self._finished: List[JobResult] = []
        self._closing = False
        self._door = Door(servers, name, bytes, timeout, client)
        self._door.register(self._memory)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._work, name="rmem-tier", daemon=True)
        self._thread.start()

    # ---- the thread ----

    def _work(self) -> None:
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        poller.register(self._door.fileno(), select.POLLIN)
        while not self._closing:
            if self._wake in dict(poller.poll()):
                os.eventfd_read(self._wake)
            while not self._to_do.empty():
                self._door.submit(*self._to_do.get())
            for end in self._door.poll():
                self._ended.put(end)

    def _submit(self, opcode: int, keys: Sequence[Any], memories: Sequence[Any],
                tag: Any) -> None:
        self._to_do.put((opcode, [self._prefix + key.hex() for key in keys], memories, tag))
        os.eventfd_write(self._wake, 1)

    # ---- the scheduler ----

    def _take(self, wait: bool = False) -> None:
        while wait or not self._ended.empty():
            end = self._ended.get()
            wait = False
            tag, keys = end.tag
            if end.opcode == EXISTS:
                if tag in self._asked:
                    self._asked[tag].update(zip(keys, end.ends))
            else:
                self._finish(*self._jobs.pop(tag), keys, end)

    def _finish(self, job: Any, begin: float, keys: Sequence[Any], end: Any) -> None:
        good = None
        if end.opcode == GET and not all(end.ends):
            good = tuple(key for key, one in zip(keys, end.ends) if one) or None
            there = self._asked.get(job.req_context.req_id, {})
            there.update((key, False) for key, one in zip(keys, end.ends) if not one)
        self._finished.append(JobResult(
            job_id=job.job_id, success=all(end.ends), successful_keys=good,
            transfer_time=time.monotonic() - begin, transfer_bytes=sum(end.ends) * self._chunk))

    def on_new_request(self, req_context: Any) -> RequestOffloadingContext:
        """Chunks are offloaded as they come."""
        return RequestOffloadingContext()

    def lookup(self, key: Any, req_context: Any) -> LookupResult:
        """Whether there is a chunk: the first time "ask again", as the answer is not here yet."""
        self._take()
        asked = self._asked.setdefault(req_context.req_id, {})
        if key not in asked:
            asked[key] = None
            self._to_ask.setdefault(req_context.req_id, []).append(key)
        if asked[key] is None:
            return LookupResult.RETRY
        return LookupResult.HIT if asked[key] else LookupResult.MISS

    def on_schedule_end(self, context: Any) -> None:
        """Ask for all keys of the step, a batch for each request."""
        for request, keys in self._to_ask.items():
            self._submit(EXISTS, keys, (), (request, keys))
        self._to_ask = {}

    def on_request_finished(self, req_context: Any) -> None:
        """Forget what was found for the request."""
        self._asked.pop(req_context.req_id, None)
        self._to_ask.pop(req_context.req_id, None)

    def _submit_job(self, opcode: int, job: Any) -> None:
        keys = list(job.keys)
        memories = [self._memory[int(i) * self._chunk:(int(i) + 1) * self._chunk]
                    for i in job.chunk_ids]
        self._jobs[job.job_id] = job, time.monotonic()
        self._submit(opcode, keys, memories, (job.job_id, keys))

    def submit_store(self, job_metadata: Any) -> None:
        """Begin to store chunks.  What is there is left alone."""
        self._submit_job(PUT, job_metadata)

    def submit_load(self, job_metadata: Any) -> None:
        """Begin to read chunks."""
        self._submit_job(GET, job_metadata)

    def get_finished_jobs(self) -> List[JobResult]:
        """The jobs that have ended."""
        self._take()
        finished, self._finished = self._finished, []
        return finished

    def drain_jobs(self) -> None:
        """Wait for all jobs."""
        while self._jobs:
            self._take(wait=True)

    def shutdown(self) -> None:
        """End the client."""
        if self._closing:
            return
        self.drain_jobs()
        self._closing = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._door.close()
        os.close(self._wake)
