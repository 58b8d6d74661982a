/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/pool.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/pool/open.h"

/* What is not lent after a restart is zeroed in pieces of this, so that some is clean soon. */
#define SETTLE_BYTES (UINT64_C(256) << 20)

/* ---- set-up ---- */

static int pool_scrubber(struct pools *pools, struct pool *pool)
{
	int err;

	for (unsigned i = 0; i < pools->n_scrubbers; i++) {
		if (scrubber_node(pools->scrubbers[i]) == pool->memory.node) {
			pool->scrubber = pools->scrubbers[i];
			return 0;
		}
	}
	err = scrubber_start(pool->memory.node, &pools->scrubbed, &pool->scrubber);
	if (!err)
		pools->scrubbers[pools->n_scrubbers++] = pool->scrubber;
	return err;
}

/* Takes the memory over. */
static int pool_open(struct pools *pools, struct pool *pool,
		     const struct memory *memory)
{
	int err = extents_init(&pool->extents, memory->bytes, pools->grain);

	pool->memory = *memory;
	pool->unsettled = memory->kept;
	if (err) {
		err = err_errno(err, "bookkeeping");
		goto err_memory;
	}
	err = pool_scrubber(pools, pool);
	if (err)
		goto err_extents;
	pool->opened = true;
	return 0;

err_extents:
	extents_destroy(&pool->extents);
err_memory:
	memory_close(&pool->memory);
	return err_prefix(err, "pool '%s'", pool->params.name);
}

/* For the callbacks of open_run(). */
struct pools_opening {
	struct pools *pools;
	const struct pools_events *events;
};

static int on_opened(void *ctx, size_t i, const struct memory *memory, const char *note)
{
	const struct pools_opening *opening = ctx;
	const struct pools_events *events = opening->events;
	struct pool_status status;
	int err = pool_open(opening->pools, &opening->pools->pool[i], memory);

	if (!err && events && events->ready) {
		pools_status(opening->pools, (unsigned)i, &status);
		events->ready(events->ctx, &status, note);
	}
	return err;
}

static void on_populating(void *ctx, uint64_t done, uint64_t bytes)
{
	const struct pools_opening *opening = ctx;
	const struct pools_events *events = opening->events;

	if (events && events->populating)
		events->populating(events->ctx, done, bytes);
}

int pools_open(const struct pool_params *params, size_t n_params,
	       const struct pools_events *events, struct pools **ret_pools)
{
	static const struct opening_events opening_events = {
		.opened = on_opened,
		.populating = on_populating,
	};
	struct pools *pools = calloc(1, sizeof(*pools));
	struct pools_opening opening = { .pools = pools, .events = events };
	int err;

	if (!pools)
		return err_errno(-ENOMEM, "pools");
	pools->grain = (uint64_t)sysconf(_SC_PAGESIZE);
	pools->extent_max = UINT64_MAX;
	list_init(&pools->cleared);
	list_init(&pools->given);
	err = mailbox_init(&pools->scrubbed);
	if (err)
		goto err_free;
	pools->pool = calloc(n_params, sizeof(*pools->pool));
	pools->scrubbers = calloc(n_params, sizeof(struct scrubber *));
	if (!pools->pool || !pools->scrubbers) {
		err = err_errno(-ENOMEM, "pools");
		goto err_close;
	}
	for (; pools->n_pools < n_params; pools->n_pools++) {
		pools->pool[pools->n_pools].params = params[pools->n_pools];
		pools->pool[pools->n_pools].endpoints = UINT_MAX;
	}
	err = open_run(params, n_params, &opening_events, &opening);
	if (err)
		goto err_close;
	*ret_pools = pools;
	return 0;

err_close:
	pools_close(pools);
	return err;
err_free:
	free(pools);
	return err;
}

void pools_close(struct pools *pools)
{
	if (!pools)
		return;
	for (unsigned i = 0; i < pools->n_pools; i++)
		atomic_store(&pools->pool[i].job.stop, true);
	if (pools->has_resizer)
		worker_stop(&pools->resizer);
	for (unsigned i = 0; i < pools->n_scrubbers; i++)
		scrubber_stop(pools->scrubbers[i]);
	for (unsigned i = 0; i < pools->n_pools; i++) {
		if (!pools->pool[i].opened)
			continue;
		extents_destroy(&pools->pool[i].extents);
		/* the thread has the memory of a pool that is being resized */
		if (pools->pool[i].resizing == POOL_GROWS ||
		    pools->pool[i].resizing == POOL_SHRINKS)
			pools->pool[i].memory = pools->pool[i].job.memory;
		memory_close(&pools->pool[i].memory);
	}
	mailbox_destroy(&pools->scrubbed);
	free(pools->scrubbers);
	free(pools->pool);
	free(pools);
}

/* ---- freeing ---- */

void block_clean(struct pools *pools, struct block *block)
{
	const struct pool *pool = container_of(block->extents, struct pool, extents);
	bool first = list_empty(&pools->given);

	block->job.addr = pool->memory.addr + block->offset;
	block->job.bytes = block->bytes;
	list_append(&pools->given, &block->job.link);
	if (!pools->on_freed)
		pools_scrub(pools);
	else if (first)
		pools->on_freed(pools->freed_ctx);
}

void pools_on_freed(struct pools *pools, void (*given)(void *ctx), void *ctx)
{
	pools->on_freed = given;
	pools->freed_ctx = ctx;
	pools_scrub(pools);
}

void pools_scrub(struct pools *pools)
{
	list_for_each_safe(node, &pools->given) {
		struct scrub_job *job = container_of(node, struct scrub_job, link);
		struct block *block = container_of(job, struct block, job);

		list_remove(node);
		scrubber_post(
			container_of(block->extents, struct pool, extents)->scrubber,
			job);
	}
}

/* pools_fd() becomes readable when all that was reclaimed is back. */
static void look_cleared(struct pools *pools, const struct pool *pool)
{
	if (pool->resizing != POOL_RECLAIMS || !extents_cleared(&pool->extents) ||
	    pools->cleared_posted)
		return;
	pools->cleared_posted = true;
	mailbox_post(&pools->scrubbed, &pools->cleared);
}

static void block_give(struct pools *pools, struct pool *pool, struct block *block)
{
	if (block->offset >= pool->extents.end) {
		extents_drop(&pool->extents, block);
		look_cleared(pools, pool);
		return;
	}
	extents_soil(&pool->extents, block);
	block_clean(pools, block);
}

/* Memory freed twice could be lent twice: never go on then. */
static struct block *block_of(const struct extent *extent)
{
	struct block *block = extents_find(&extent->pool->extents, extent->offset);

	assert(block && block->bytes == extent->bytes);
	return block;
}

void pools_free(struct pools *pools, struct extent extent)
{
	block_give(pools, extent.pool, block_of(&extent));
}

uint64_t pools_free_tail(struct pools *pools, struct extent *extent, uint64_t keep)
{
	uint64_t whole = (keep + pools->grain - 1) / pools->grain * pools->grain;
	uint64_t bytes = extent->bytes;
	struct block *rest;

	assert(keep > 0);
	if (whole >= bytes ||
	    extents_split(&extent->pool->extents, block_of(extent), whole, &rest))
		return 0;
	extent->bytes = whole;
	block_give(pools, extent->pool, rest);
	return bytes - whole;
}

/* ---- after a restart ---- */

int pools_claim(struct pools *pools, uint32_t id, uint64_t offset, uint64_t bytes,
		struct extent *ret_extent)
{
	uint64_t whole = (bytes + pools->grain - 1) / pools->grain * pools->grain;
	struct block *block;
	int err = -ENOENT;

	for (unsigned i = 0; i < pools->n_pools; i++) {
		struct pool *pool = &pools->pool[i];

		if (pool->params.id != id || !pool->unsettled)
			continue;
		err = extents_claim(&pool->extents, offset, whole, &block);
		*ret_extent = (struct extent){ pool, offset, whole };
		break;
	}
	return err ? err_errno(err, "%" PRIu64 " bytes at %" PRIu64 " of pool %" PRIu32,
			       bytes, offset, id)
		   : 0;
}

static int pool_settle(struct pools *pools, struct pool *pool)
{
	struct block *block;
	int err;

	while (!(err = extents_alloc_most(&pool->extents, SETTLE_BYTES, pools->grain,
					  &block)))
		block_give(pools, pool, block);
	if (err != -ENOSPC)
		return err_errno(err, "pool '%s'", pool->params.name);
	pool->unsettled = false;
	return 0;
}

int pools_settle(struct pools *pools)
{
	int err = 0;

	for (unsigned i = 0; i < pools->n_pools && !err; i++)
		if (pools->pool[i].unsettled)
			err = pool_settle(pools, &pools->pool[i]);
	return err;
}

void pools_set_scrub_rate(struct pools *pools, uint64_t rate)
{
	for (unsigned i = 0; i < pools->n_scrubbers; i++)
		scrubber_set_rate(pools->scrubbers[i], rate);
}

void pools_set_extent_max(struct pools *pools, uint64_t bytes)
{
	pools->extent_max = bytes ? bytes : UINT64_MAX;
}

void pools_hurry(struct pools *pools, bool hurry)
{
	if (hurry)
		pools_scrub(pools);
	for (unsigned i = 0; i < pools->n_scrubbers; i++)
		scrubber_hurry(pools->scrubbers[i], hurry);
}

int pools_fd(const struct pools *pools)
{
	return mailbox_fd(&pools->scrubbed);
}

/* Whether the node is of a resize job, not of a block. */
static bool take_job(struct pools *pools, const struct list *node)
{
	for (unsigned i = 0; i < pools->n_pools; i++) {
		struct pool *pool = &pools->pool[i];

		if (node != &pool->job.link)
			continue;
		pool->memory = pool->job.memory;
		pool->job_done = true;
		return true;
	}
	return false;
}

static uint64_t take_block(struct block *block)
{
	struct pool *pool = container_of(block->extents, struct pool, extents);
	uint64_t free = pool->extents.free;

	pool->scrubbed_ever += block->bytes;
	extents_free(&pool->extents, block);
	return pool->extents.free - free;
}

uint64_t pools_process(struct pools *pools)
{
	struct list done;
	uint64_t bytes = 0;

	list_init(&done);
	mailbox_take(&pools->scrubbed, &done);
	list_for_each_safe(node, &done) {
		list_remove(node);
		if (node == &pools->cleared) {
			pools->cleared_posted = false;
			continue;
		}
		if (take_job(pools, node))
			continue;
		bytes += take_block(container_of(
			container_of(node, struct scrub_job, link), struct block, job));
	}
	return bytes;
}

/* ---- status ---- */

const struct pool_params *pools_params(const struct pools *pools, unsigned i)
{
	return &pools->pool[i].params;
}

void extent_set_releasing(const struct extent *extent, bool releasing)
{
	if (releasing)
		extent->pool->releasing += extent->bytes;
	else
		extent->pool->releasing -= extent->bytes;
}

void *extent_addr(const struct extent *extent)
{
	return extent->pool->memory.addr + extent->offset;
}

int extent_node(const struct extent *extent)
{
	return extent->pool->memory.node;
}

uint32_t extent_pool_id(const struct extent *extent)
{
	return extent->pool->params.id;
}

uint64_t extent_page_bytes(const struct extent *extent)
{
	return extent->pool->memory.page_bytes;
}

unsigned extent_endpoints(const struct extent *extent)
{
	return extent->pool->endpoints;
}

const char *extent_pool(const struct extent *extent)
{
	return extent->pool->params.name;
}

void pools_set_endpoints(struct pools *pools, unsigned i, unsigned endpoints)
{
	pools->pool[i].endpoints = endpoints;
}

unsigned pools_count(const struct pools *pools)
{
	return pools->n_pools;
}

int pools_file(const struct pools *pools, unsigned i)
{
	return pools->pool[i].memory.fd;
}

void pools_status(const struct pools *pools, unsigned i, struct pool_status *ret_status)
{
	const struct pool *pool = &pools->pool[i];

	*ret_status = (struct pool_status){
		.name = pool->params.name,
		.node_asked = pool->params.node,
		.node_got = pool->memory.node,
		.pages_asked = pool->params.pages,
		.pages_got = pool->memory.pages,
		.page_bytes = pool->memory.page_bytes,
		.bytes_asked = pool->params.bytes,
		.bytes = pool->extents.bytes,
		.lent = pool->extents.lent,
		.scrubbing = pool->extents.dirty,
		.free = pool->extents.free,
		.closed = pool->extents.closed,
		.largest_free = extents_largest(&pool->extents, pools->grain),
		.releasing = pool->releasing,
		.scrubbed_ever = pool->scrubbed_ever,
		.endpoints = pool->endpoints,
		.resizing = pool->resizing,
		.bytes_to = pool->resizing == POOL_GROWS ? pool->job.bytes
							 : pool->extents.end,
	};
	if (pool->resizing == POOL_GROWS)
		ret_status->populated = atomic_load(&pool->job.work.watch.done);
	if (pool->resizing == POOL_RECLAIMS)
		ret_status->reclaimed =
			pool->extents.bytes - pool->extents.end - pool->extents.closed;
}

int pools_node(const struct pools *pools, unsigned i)
{
	return memory_node(&pools->pool[i].memory);
}
