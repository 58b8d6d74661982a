# SPDX-License-Identifier: BSD-3-Clause
"""What vllm 0.33.0 has in vllm.v1.kv_offload.base and .tiering.base, as far as a tier sees it."""

import sys
import types
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any


class LookupResult(Enum):
    MISS = auto()
    HIT = auto()
    HIT_PENDING = auto()
    RETRY = auto()


@dataclass
class ReqContext:
    req_id: str


@dataclass
class RequestOffloadingContext:
    policy: Any = "chunk_level"


@dataclass
class TransferJob:
    job_id: int
    keys: Any
    chunk_ids: Any
    is_promotion: bool
    req_context: ReqContext


@dataclass
class JobResult:
    job_id: int
    success: bool
    successful_keys: Any = None
    transfer_time: Any = None
    transfer_bytes: Any = None


class SecondaryTierManager(ABC):
    def __init__(self, offloading_spec, primary_kv_view, tier_type, backpressure_detector=None):
        assert primary_kv_view.strides is not None
        self.tier_type = tier_type

    @abstractmethod
    def lookup(self, key, req_context):
        pass

    @abstractmethod
    def submit_store(self, job_metadata):
        pass

    @abstractmethod
    def submit_load(self, job_metadata):
        pass

    @abstractmethod
    def get_finished_jobs(self):
        pass

    @abstractmethod
    def on_new_request(self, req_context):
        pass

    @abstractmethod
    def drain_jobs(self):
        pass


def install():
    """Let the door find this module."""
    for name in ("vllm", "vllm.v1", "vllm.v1.kv_offload", "vllm.v1.kv_offload.tiering"):
        sys.modules[name] = types.ModuleType(name)
    for name in ("base", "tiering.base"):
        sys.modules["vllm.v1.kv_offload." + name] = sys.modules[__name__]
