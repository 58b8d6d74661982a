# SPDX-License-Identifier: BSD-3-Clause
"""Doors to inference engines, which load them by their names: see the page of each.

    rmem.engines.lmcache   LMCache, MP mode
    rmem.engines.sglang    SGLang, HiCache
    rmem.engines.vllm      vLLM, tiered offloading

Each needs its engine only when the engine loads it.
"""
