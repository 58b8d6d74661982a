/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools become longer and shorter while they are lent: what the thread does, and what it means for
 * the extents of the pool. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/pool/host.h"
#include "rmemd/pool/pool.h"

/* ---- the thread ---- */

static int job_grow(struct resize_job *job)
{
	_Atomic(uint64_t) room;
	uint64_t available;

	/* where the kernel tells no number, populating shows whether there is enough */
	if (host_available(-1, &available))
		available = UINT64_MAX;
	atomic_init(&room, available);
	job->work.room = &room;
	return memory_grow(&job->memory, job->bytes, job->node, &job->work, job->note,
			   sizeof(job->note));
}

static bool job_run(struct worker *worker, struct list *node)
{
	struct resize_job *job = container_of(node, struct resize_job, link);

	(void)worker;
	job->work.watch.stop = &job->stop;
	if (job->bytes < job->memory.bytes)
		job->err = memory_cut(&job->memory, job->bytes);
	else if (atomic_load(&job->stop))
		job->err = err_set(-ECANCELED, "told to stop");
	else
		job->err = job_grow(job);
	if (job->err)
		(void)snprintf(job->text, sizeof(job->text), "%s", err_text());
	return true;
}

/* The thread is started when it is first needed. */
static int resizer_start(struct pools *pools)
{
	int err;

	if (pools->has_resizer)
		return 0;
	err = worker_start(&pools->resizer, "rmemd-resize", -1, job_run,
			   &pools->scrubbed);
	pools->has_resizer = !err;
	return err;
}

/* ---- the pools ---- */

uint64_t pools_round(const struct pools *pools, unsigned i, uint64_t bytes)
{
	uint64_t page = pools->pool[i].memory.page_bytes;

	return (bytes + page - 1) / page * page;
}

static void job_post(struct pools *pools, struct pool *pool, enum pool_resizing what,
		     uint64_t bytes)
{
	struct resize_job *job = &pool->job;

	memset(job, 0, sizeof(*job));
	list_init(&job->link);
	job->memory = pool->memory;
	job->node = pool->params.node;
	job->bytes = bytes;
	pool->resizing = what;
	/* what is cut off is not in use */
	if (bytes < pool->memory.bytes)
		pool->memory.bytes = bytes;
	worker_post(&pools->resizer, &job->link);
}

int pools_grow(struct pools *pools, unsigned i, uint64_t bytes)
{
	struct pool *pool = &pools->pool[i];
	int err = extents_grow_reserve(&pool->extents);

	assert(pool->resizing == POOL_RESTS && bytes > pool->extents.bytes);
	err = err ? err_errno(err, "bookkeeping") : resizer_start(pools);
	if (!err)
		job_post(pools, pool, POOL_GROWS, bytes);
	return err;
}

void pools_grow_stop(struct pools *pools, unsigned i)
{
	atomic_store(&pools->pool[i].job.stop, true);
}

int pools_reclaim(struct pools *pools, unsigned i, uint64_t bytes, uint64_t until_ms,
		  enum pool_shrink then)
{
	struct pool *pool = &pools->pool[i];
	int err = resizer_start(pools);

	assert(pool->resizing == POOL_RESTS);
	if (err)
		return err;
	err = extents_close(&pool->extents, bytes);
	if (err)
		return err_errno(err, "bookkeeping");
	pool->resizing = POOL_RECLAIMS;
	pool->reclaim_until_ms = until_ms;
	pool->reclaim_then = then;
	return 0;
}

static void on_soiled(void *ctx, struct block *block)
{
	block_clean(ctx, block);
}

void pools_reclaim_end(struct pools *pools, unsigned i)
{
	struct pool *pool = &pools->pool[i];

	assert(pool->resizing == POOL_RECLAIMS);
	pool->resizing = POOL_RESTS;
	extents_reopen(&pool->extents, on_soiled, pools);
}

void pools_shrink(struct pools *pools, unsigned i)
{
	struct pool *pool = &pools->pool[i];

	if (pool->resizing == POOL_RECLAIMS)
		extents_cut(&pool->extents);
	job_post(pools, pool, POOL_SHRINKS, pool->extents.bytes);
}

bool pools_resized(struct pools *pools, struct pools_resized *ret_resized)
{
	for (unsigned i = 0; i < pools->n_pools; i++) {
		struct pool *pool = &pools->pool[i];

		if (!pool->job_done)
			continue;
		pool->job_done = false;
		*ret_resized = (struct pools_resized){
			.i = i,
			.grown = pool->resizing == POOL_GROWS,
			.err = pool->job.err,
			.wanted = pool->job.bytes,
			.bytes = pool->memory.bytes,
			.text = pool->job.err ? pool->job.text : pool->job.note,
		};
		pool->resizing = POOL_RESTS;
		return true;
	}
	return false;
}

void pools_lend(struct pools *pools, unsigned i)
{
	struct pool *pool = &pools->pool[i];

	extents_grow(&pool->extents, pool->memory.bytes);
}

void pools_set_asked(struct pools *pools, unsigned i, uint64_t bytes)
{
	pools->pool[i].params.bytes = bytes;
	pools->pool[i].params.share = POOL_SHARE_AUTO;
}

void extent_reclaim(const struct extent *extent, struct pool_reclaim *ret_recall)
{
	const struct pool *pool = extent->pool;
	uint64_t end = extent->offset + extent->bytes, keep = pool->extents.end;

	*ret_recall = (struct pool_reclaim){ .until_ms = pool->reclaim_until_ms,
					     .then = pool->reclaim_then };
	if (pool->resizing == POOL_RECLAIMS && end > keep)
		ret_recall->bytes =
			end - (extent->offset > keep ? extent->offset : keep);
}
