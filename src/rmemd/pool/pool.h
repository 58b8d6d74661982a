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

enum pool_job_kind { POOL_JOB_OPEN, POOL_JOB_RESIZE, POOL_JOB_CLOSE };

/* The opening, resizing or closing of a pool's memory by a thread, which owns the job until it
 * posts it. */
struct pool_job {
	struct list link;
	enum pool_job_kind kind;
	/* result; of resizing, a copy of the pool's until then */
	struct memory memory;
	uint64_t bytes; /* of resizing: the new size, whole pages */
	struct memory_work work;
	atomic_bool stop;        /* give up opening or growing */
	struct err_saved failed; /* of memory_open(), memory_grow() or memory_cut() */
};

struct pool {
	struct list link; /* in `coming` or `going`; in the table it is in neither */
	struct pool_params params;
	bool opened;        /* it has memory and extents */
	unsigned endpoints; /* through which it is lent, a bit each */
	struct memory memory;
	struct extents extents;
	struct scrubber *scrubber; /* of the node; shared by the pools there */
	bool needs_zeroing; /* memory that is not lent may not be zero: pools_zero_unlent() */
	uint64_t releasing; /* bytes of extent_set_releasing() */
	uint64_t scrubbed_ever;
	enum pool_resizing resizing;
	struct pool_job job; /* coming, going, and in POOL_GROWS and POOL_SHRINKS */
	bool job_done;       /* its result is to be reported */
	bool leaving;        /* nothing is granted from it: it is closed to remove it */
	uint64_t close_to;   /* POOL_CLOSES: the end to come */
	uint64_t reclaim_until_ms;
};

struct pools {
	struct pool **pool; /* table with room for all that are coming, too */
	unsigned n_pools;
	struct list coming;          /* pools_add() */
	struct list going;           /* pools_drop(), pools_remove() */
	struct scrubber **scrubbers; /* one for each node, room for one per pool */
	unsigned n_scrubbers;
	uint64_t scrub_rate;
	bool hurry;
	struct worker resizer; /* runs jobs, one after the other */
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

static inline struct extent extent_of(struct pool *pool, struct block *block)
{
	return (struct extent){ pool, block, block->offset, block->bytes };
}

/* A pool that is in no list and has no memory yet.  NULL: no memory. */
struct pool *pool_new(const struct pool_params *params);
/* Free a pool, and its memory, unless a thread has its job. */
void pool_delete(struct pool *pool);
/* Make the memory of its job, which it owns, to that of the pool; on failure it stays in the job.
 *   -EAGAIN, -EMFILE, -ENOMEM  with text */
int pool_open(struct pools *pools, struct pool *pool);
struct pool_status pool_status(const struct pools *pools, const struct pool *pool);

/* Start the thread that runs jobs.  -EAGAIN, -EMFILE, -ENOMEM */
int pool_jobs_start(struct pools *pools);
/* Run a job, after pool_jobs_start(); the kind's members are set. */
void pool_job_post(struct pools *pools, struct pool *pool, enum pool_job_kind kind);
/* The thread is done with it, if it is a job's message. */
bool pool_job_done(struct pools *pools, const struct list *message);

#endif
