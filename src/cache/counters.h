/* SPDX-License-Identifier: BSD-3-Clause */
/* What a client has counted, for one server.  The names are those of struct rmem_cache_stat. */
#ifndef CACHE_COUNTERS_H
#define CACHE_COUNTERS_H

#include <stdint.h>

struct counters {
	uint64_t hits, misses, stored, deleted, failed;
	uint64_t reads, writes, swaps, copies; /* operations submitted */
	uint64_t hints;                        /* writes of a hint */
	uint64_t torn;      /* blocks that did not prove themselves */
	uint64_t stale;     /* slots whose segment was evicted */
	uint64_t contended; /* swaps that another client was ahead of */
	uint64_t claims, seals, evictions, dropped, moved;
	uint64_t unknown; /* atomics whose outcome was asked for */
	uint64_t losses;  /* of the server */
};

#endif
