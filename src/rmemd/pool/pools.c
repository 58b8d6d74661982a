/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/pool.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/err.h"

/* Blocks that are handed to the scrubbers, or taken from them, before others get their turn. */
#define BLOCKS_PER_TURN 256
/* Blocks behind which the end of a pool is moved before others get their turn. */
#define END_BLOCKS_PER_TURN 1024

void pools_close(struct pools *pools)
{
	if (!pools)
		return;
	for (unsigned i = 0; i < pools->n_pools; i++)
		atomic_store(&pools->pool[i]->job.stop, true);
	list_for_each_entry(struct pool, pool, &pools->coming, link)
		atomic_store(&pool->job.stop, true);
	if (pools->has_resizer)
		worker_stop(&pools->resizer);
	for (unsigned i = 0; i < pools->n_scrubbers; i++) {
		worker_stop(&pools->scrubbers[i]->worker);
		free(pools->scrubbers[i]);
	}
	list_splice(&pools->coming, &pools->going);
	list_for_each_entry_safe(struct pool, pool, &pools->coming, link)
		pool_delete(pool);
	for (unsigned i = 0; i < pools->n_pools; i++)
		pool_delete(pools->pool[i]);
	mailbox_destroy(&pools->done);
	free(pools->scrubbers);
	free(pools->pool);
	free(pools);
}

/* ---- freeing ---- */

static struct pool *pool_of(const struct block *block)
{
	return container_of(block->extents, struct pool, extents);
}

/* Prepare the job that zeroes the next piece of a dirty block. */
static void block_next_piece(struct block *block)
{
	uint64_t left = block->bytes - block->clean;

	block->job.addr = pool_of(block)->memory.addr + block->offset + block->clean;
	block->job.bytes = left < SCRUB_PIECE_BYTES ? left : SCRUB_PIECE_BYTES;
}

static void block_post(struct block *block)
{
	mailbox_post(&pool_of(block)->scrubber->worker.jobs, &block->job.link);
}

/* Queue a dirty block for its scrubber; pools_process() frees what is zeroed. */
static void block_queue_zeroing(struct pools *pools, struct block *block)
{
	bool first = list_empty(&pools->freed);

	block_next_piece(block);
	list_append(&pools->freed, &block->job.link);
	if (!pools->on_freed)
		pools_scrub(pools);
	else if (first)
		pools->on_freed(pools->freed_ctx);
}

void pools_on_freed(struct pools *pools, void (*on_freed)(void *ctx), void *ctx)
{
	pools->on_freed = on_freed;
	pools->freed_ctx = ctx;
	pools_scrub(pools);
}

void pools_scrub(struct pools *pools)
{
	unsigned n = 0;

	list_for_each_entry_safe(struct scrub_job, job, &pools->freed, link) {
		struct block *block = container_of(job, struct block, job);

		if (pools->on_freed && n++ == BLOCKS_PER_TURN) {
			pools->on_freed(pools->freed_ctx);
			return;
		}
		list_remove(&job->link);
		block_post(block);
	}
}

static void block_free(struct pools *pools, struct pool *pool, struct block *block)
{
	/* a pool may be leaving for long */
	if (block->offset < pool->extents.end || pool->leaving) {
		extents_mark_dirty(&pool->extents, block);
		block_queue_zeroing(pools, block);
		return;
	}
	extents_drop(&pool->extents, block);
	/* make pools_fd() readable if no block of the closed end is lent or dirty any more */
	if (pool->resizing != POOL_RECLAIMS || !extents_end_is_free(&pool->extents) ||
	    pools->end_free_posted)
		return;
	pools->end_free_posted = true;
	mailbox_post(&pools->done, &pools->end_free);
}

/* Memory freed twice could be lent twice: abort. */
static struct block *block_of(const struct extent *extent)
{
	struct block *block = extent->block;

	assert(block->state == BLOCK_LENT && block->offset == extent->offset &&
	       block->bytes == extent->bytes);
	return block;
}

void pools_free(struct pools *pools, struct extent extent)
{
	block_free(pools, extent.pool, block_of(&extent));
}

uint64_t pools_free_tail(struct pools *pools, struct extent *extent, uint64_t keep)
{
	uint64_t whole, bytes = extent->bytes;
	struct block *rest;

	assert(keep > 0);
	if (!checked_align_up(keep, pools->grain, &whole) || whole >= bytes ||
	    extents_split(&extent->pool->extents, block_of(extent), whole, &rest))
		return 0;
	extent->bytes = whole;
	block_free(pools, extent->pool, rest);
	return bytes - whole;
}

/* ---- after a restart ---- */

int pools_claim(struct pools *pools, uint32_t id, uint64_t offset, uint64_t bytes,
		struct extent *ret_extent)
{
	struct block *block;
	uint64_t whole;
	int err = -ENOENT;

	for (unsigned i = 0; i < pools->n_pools; i++) {
		struct pool *pool = pools->pool[i];

		if (pool->params.id != id || !pool->needs_zeroing)
			continue;
		err = checked_align_up(bytes, pools->grain, &whole)
			      ? extents_claim(&pool->extents, offset, whole, &block)
			      : -EINVAL;
		if (!err)
			*ret_extent = extent_of(pool, block);
		break;
	}
	return err ? err_errno(err, "%" PRIu64 " bytes at %" PRIu64 " of pool %" PRIu32,
			       bytes, offset, id)
		   : 0;
}

static int pool_zero_unlent(struct pools *pools, struct pool *pool)
{
	struct block *block;
	int err;

	while (!(err = extents_alloc_most(&pool->extents, UINT64_MAX, pools->grain,
					  &block)))
		block_free(pools, pool, block);
	if (err != -ENOSPC)
		return err_errno(err, "pool '%s'", pool->params.name);
	pool->needs_zeroing = false;
	return 0;
}

int pools_zero_unlent(struct pools *pools)
{
	int err = 0;

	for (unsigned i = 0; i < pools->n_pools && !err; i++)
		if (pools->pool[i]->needs_zeroing)
			err = pool_zero_unlent(pools, pools->pool[i]);
	return err;
}

void pools_set_scrub_rate(struct pools *pools, uint64_t rate)
{
	pools->scrub_rate = rate;
	for (unsigned i = 0; i < pools->n_scrubbers; i++)
		atomic_store(&pools->scrubbers[i]->rate, rate);
}

void pools_set_extent_max(struct pools *pools, uint64_t bytes)
{
	pools->extent_max = bytes ? bytes : UINT64_MAX;
}

void pools_hurry(struct pools *pools, bool hurry)
{
	if (hurry)
		pools_scrub(pools);
	pools->hurry = hurry;
	for (unsigned i = 0; i < pools->n_scrubbers; i++)
		atomic_store(&pools->scrubbers[i]->hurry, hurry);
}

int pools_fd(const struct pools *pools)
{
	return mailbox_fd(&pools->done);
}

static uint64_t finish_scrub_job(struct block *block)
{
	struct pool *pool = pool_of(block);
	uint64_t free = pool->extents.sum[BLOCK_FREE];

	pool->scrubbed_ever += block->job.bytes;
	/* others that were freed meanwhile get their turn before its next piece */
	if (!extents_cleaned(&pool->extents, block, block->job.bytes)) {
		block_next_piece(block);
		block_post(block);
	}
	return pool->extents.sum[BLOCK_FREE] - free;
}

uint64_t pools_process(struct pools *pools)
{
	struct list done;
	uint64_t bytes = 0;

	list_init(&done);
	/* the descriptor stays readable while there are more */
	mailbox_receive_some(&pools->done, &done, BLOCKS_PER_TURN);
	list_for_each_safe(node, &done) {
		list_remove(node);
		if (node == &pools->end_free) {
			pools->end_free_posted = false;
			continue;
		}
		if (pool_job_done(pools, node))
			continue;
		bytes += finish_scrub_job(container_of(
			container_of(node, struct scrub_job, link), struct block, job));
	}
	return bytes;
}

/* ---- resizing ---- */

static void resize_post(struct pools *pools, struct pool *pool, enum pool_resizing what,
			uint64_t bytes)
{
	struct pool_job *job = &pool->job;

	memset(job, 0, sizeof(*job));
	list_init(&job->link);
	job->memory = pool->memory;
	job->bytes = bytes;
	pool->resizing = what;
	/* the end that is cut off is not used from here on */
	if (bytes < pool->memory.bytes)
		pool->memory.bytes = bytes;
	pool_job_post(pools, pool, POOL_JOB_RESIZE);
}

int pools_grow(struct pools *pools, unsigned i, uint64_t bytes)
{
	struct pool *pool = pools->pool[i];
	int err = extents_reserve(&pool->extents);

	assert(pool->resizing == POOL_RESTS && bytes > pool->extents.bytes);
	err = err ? err_errno(err, "bookkeeping") : pool_jobs_start(pools);
	if (!err)
		resize_post(pools, pool, POOL_GROWS, bytes);
	return err;
}

void pools_grow_stop(struct pools *pools, unsigned i)
{
	atomic_store(&pools->pool[i]->job.stop, true);
}

int pools_reclaim(struct pools *pools, unsigned i, uint64_t bytes, uint64_t until_ms)
{
	struct pool *pool = pools->pool[i];
	int err = pool_jobs_start(pools);

	assert(pool->resizing == POOL_RESTS);
	if (err)
		return err;
	err = extents_reserve(&pool->extents);
	if (err)
		return err_errno(err, "bookkeeping");
	pool->resizing = POOL_CLOSES;
	pool->leaving = bytes == 0;
	pool->close_to = bytes;
	pool->reclaim_until_ms = until_ms;
	return 0;
}

static void on_dirty(void *ctx, struct block *block)
{
	block_queue_zeroing(ctx, block);
}

void pools_reclaim_cancel(struct pools *pools, unsigned i)
{
	struct pool *pool = pools->pool[i];

	assert(pool->resizing == POOL_CLOSES || pool->resizing == POOL_RECLAIMS);
	pool->resizing = POOL_REOPENS;
	pool->leaving = false;
}

void pools_shrink(struct pools *pools, unsigned i)
{
	struct pool *pool = pools->pool[i];

	/* memory that was not lent yet is not in the bookkeeping */
	if (pool->resizing == POOL_RECLAIMS)
		pool->resizing = POOL_CUTS;
	else
		resize_post(pools, pool, POOL_SHRINKS, pool->extents.bytes);
}

bool pools_move_end(struct pools *pools, unsigned i)
{
	struct pool *pool = pools->pool[i];
	struct extents *extents = &pool->extents;

	switch (pool->resizing) {
	case POOL_CLOSES:
		if (!extents_close(extents, pool->close_to, END_BLOCKS_PER_TURN))
			return false;
		pool->resizing = POOL_RECLAIMS;
		return true;
	case POOL_REOPENS:
		if (!extents_reopen(extents, END_BLOCKS_PER_TURN, on_dirty, pools))
			return false;
		pool->resizing = POOL_RESTS;
		return true;
	case POOL_CUTS:
		if (!extents_cut(extents, END_BLOCKS_PER_TURN))
			return false;
		if (extents->bytes == 0)
			pool->resizing = POOL_EMPTY;
		else
			resize_post(pools, pool, POOL_SHRINKS, extents->bytes);
		return true;
	case POOL_RESTS:
	case POOL_GROWS:
	case POOL_RECLAIMS:
	case POOL_SHRINKS:
	case POOL_EMPTY:
		break;
	}
	return true;
}

bool pools_resized(struct pools *pools, struct pools_resized *ret_resized)
{
	for (unsigned i = 0; i < pools->n_pools; i++) {
		struct pool *pool = pools->pool[i];

		if (!pool->job_done)
			continue;
		pool->job_done = false;
		*ret_resized = (struct pools_resized){
			.i = i,
			.grown = pool->resizing == POOL_GROWS,
			.err = pool->job.failed.err,
			.wanted = pool->job.bytes,
			.bytes = pool->memory.bytes,
			.text = pool->job.failed.err ? pool->job.failed.text
						     : pool->job.work.note,
		};
		pool->resizing = POOL_RESTS;
		return true;
	}
	return false;
}

void pools_lend(struct pools *pools, unsigned i)
{
	struct pool *pool = pools->pool[i];

	extents_grow(&pool->extents, pool->memory.bytes);
}

void pools_set_asked(struct pools *pools, unsigned i, const struct pool_params *params)
{
	struct pool_params *asked = &pools->pool[i]->params;

	asked->bytes = params->bytes;
	asked->share = params->share;
	asked->shrink = params->shrink;
	asked->shrink_wait_ms = params->shrink_wait_ms;
}

/* ---- status ---- */

const struct pool_params *pools_params(const struct pools *pools, unsigned i)
{
	return &pools->pool[i]->params;
}

void extent_set_owner(const struct extent *extent, const char *owner)
{
	block_of(extent)->owner = owner;
}

void extent_set_releasing(const struct extent *extent, bool releasing)
{
	if (releasing)
		extent->pool->releasing += extent->bytes;
	else
		extent->pool->releasing -= extent->bytes;
}

struct pool_reclaim extent_reclaim(const struct extent *extent)
{
	const struct pool *pool = extent->pool;
	uint64_t end = extent->offset + extent->bytes, keep = pool->extents.end;
	struct pool_reclaim reclaim = { .until_ms = pool->reclaim_until_ms,
					.then = pool->leaving ? POOL_SHRINK_REFUSE
							      : pool->params.shrink };

	if (pool->resizing == POOL_RECLAIMS && end > keep)
		reclaim.bytes = end - (extent->offset > keep ? extent->offset : keep);
	return reclaim;
}

void *extent_addr(const struct extent *extent)
{
	return extent->pool->memory.addr + extent->offset;
}

struct extent_pool extent_pool(const struct extent *extent)
{
	const struct pool *pool = extent->pool;

	return (struct extent_pool){ .name = pool->params.name,
				     .id = pool->params.id,
				     .node = pool->memory.node,
				     .page_bytes = pool->memory.page_bytes,
				     .endpoints = pool->endpoints,
				     .leaving = pool->leaving };
}

void pools_set_endpoints(struct pools *pools, unsigned i, unsigned endpoints)
{
	pools->pool[i]->endpoints = endpoints;
}

unsigned pools_count(const struct pools *pools)
{
	return pools->n_pools;
}

struct pool_status pools_status(const struct pools *pools, unsigned i)
{
	return pool_status(pools, pools->pool[i]);
}

int pools_node(const struct pools *pools, unsigned i)
{
	return memory_node(&pools->pool[i]->memory);
}
