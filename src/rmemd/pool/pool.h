/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of pools and what is in it; for pool/ alone.  Threads: [loop]. */
#ifndef RMEMD_POOL_POOL_H
#define RMEMD_POOL_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "rmemd/pool/extents.h"
#include "rmemd/pool/memory.h"
#include "rmemd/pool/pools.h"
#include "rmemd/pool/scrubber.h"
#include "rmemd/pool/worker.h"

#define RESIZE_NOTE_BYTES 512
#define RESIZE_TEXT_BYTES 512

/* What the resizer's thread does, for pools that grow and shrink.  It has the job until it posts it
 * to pools->scrubbed. */
struct resize_job {
	struct list link;
	struct memory memory; /* a copy: as it is then, when it is back */
	int node;             /* that it is bound to, or POOL_NODE_ANY */
	uint64_t bytes;       /* that it is to have, whole pages */
	struct memory_work work;
	atomic_bool stop; /* growing is given up */
	int err;          /* of memory_grow() or memory_cut() */
	char text[RESIZE_TEXT_BYTES];
	char note[RESIZE_NOTE_BYTES]; /* of memory_grow() */
};

struct pool {
	struct pool_params params;
	bool opened;        /* has memory and extents */
	unsigned endpoints; /* it is lent through */
	struct memory memory;
	struct extents extents;
	struct scrubber *scrubber; /* of the node; shared with its other pools */
	bool unsettled;            /* what is not lent of it may be anything */
	uint64_t releasing;        /* bytes of extent_set_releasing() */
	uint64_t scrubbed_ever;
	enum pool_resizing resizing;
	struct resize_job job; /* POOL_GROWS, POOL_SHRINKS */
	bool job_done;         /* pools_resized() tells of it */
	uint64_t reclaim_until_ms;
	enum pool_shrink reclaim_then;
};

struct pools {
	struct pool *pool;
	unsigned n_pools;
	struct scrubber **scrubbers;
	unsigned n_scrubbers;
	struct worker resizer; /* makes pools longer and shorter, one after the other */
	bool has_resizer;      /* it was needed */
	struct mailbox scrubbed; /* blocks, resize jobs, and `cleared` */
	struct list cleared;     /* what was reclaimed of some pool is back */
	bool cleared_posted;     /* it has not come back from the mailbox yet */
	struct list given;       /* jobs that no scrubber has yet */
	void (*on_freed)(void *ctx);
	void *freed_ctx;
	uint64_t grain;
	uint64_t extent_max; /* UINT64_MAX: none */
};

/* A dirty block is zeroed, then free. */
void block_clean(struct pools *pools, struct block *block);

#endif
