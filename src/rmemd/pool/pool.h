/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of pools, for pool/ alone.  Threads: [loop]. */
#ifndef RMEMD_POOL_POOL_H
#define RMEMD_POOL_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "rmemd/pool/extents.h"
#include "rmemd/pool/memory.h"
#include "rmemd/pool/pools.h"
#include "rmemd/pool/scrubber.h"

/* The opening or resizing of a pool's memory by a thread, which owns the job until it posts it. */
struct pool_job {
	struct list link;
	struct memory
		memory; /* the result; of resizing, a copy of the pool's until then */
	uint64_t bytes; /* of resizing: the new size, whole pages */
	struct memory_work work;
	atomic_bool stop;        /* give up growing */
	struct err_saved failed; /* of memory_open(), memory_grow() or memory_cut() */
};

struct pool {
	struct pool_params params;
	bool opened;        /* has memory and extents */
	unsigned endpoints; /* through which it is lent, a bit each */
	struct memory memory;
	struct extents extents;
	struct scrubber *scrubber; /* of the node; shared by the pools there */
	bool needs_zeroing; /* memory that is not lent may not be zero: pools_zero_unlent() */
	uint64_t releasing; /* bytes of extent_set_releasing() */
	uint64_t scrubbed_ever;
	enum pool_resizing resizing;
	struct pool_job job; /* until it is open, and in POOL_GROWS and POOL_SHRINKS */
	bool job_done;       /* pools_resized() is to report it */
	uint64_t close_to;   /* POOL_CLOSES: the end to come */
	uint64_t reclaim_until_ms;
};

struct pools {
	struct pool *pool;
	unsigned n_pools;
	struct scrubber *scrubbers; /* one for each node, room for one per pool */
	unsigned n_scrubbers;
	struct worker resizer; /* resizes pools, one after the other */
	bool has_resizer;      /* the thread was started, when first needed */
	struct mailbox done;   /* blocks, resize jobs, and `end_free` */
	struct list end_free;  /* message: all blocks of a closed end are free */
	bool end_free_posted;  /* `end_free` is in the mailbox */
	struct list freed;     /* scrub jobs not posted yet */
	void (*on_freed)(void *ctx);
	void *freed_ctx;
	uint64_t grain;
	uint64_t extent_max; /* UINT64_MAX: none */
};

#endif
