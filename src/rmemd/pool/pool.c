/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/pool.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

static int scrubber_add(struct pools *pools, int node)
{
	struct scrubber **scrubbers = reallocarray(
		pools->scrubbers, pools->n_scrubbers + 1, sizeof(struct scrubber *));
	struct scrubber *scrubber = calloc(1, sizeof(*scrubber));
	int err = scrubbers && scrubber ? 0 : err_errno(-ENOMEM, "a scrubber");

	if (scrubbers)
		pools->scrubbers = scrubbers;
	if (!err) {
		atomic_init(&scrubber->rate, pools->scrub_rate);
		atomic_init(&scrubber->hurry, pools->hurry);
		err = scrubber_start(scrubber, node, &pools->done);
	}
	if (err)
		free(scrubber);
	else
		scrubbers[pools->n_scrubbers++] = scrubber;
	return err;
}

static int pool_scrubber(struct pools *pools, struct pool *pool)
{
	int node = pool->job.memory.node, err = 0;
	unsigned i = 0;

	while (i < pools->n_scrubbers && pools->scrubbers[i]->worker.node != node)
		i++;
	if (i == pools->n_scrubbers)
		err = scrubber_add(pools, node);
	if (!err)
		pool->scrubber = pools->scrubbers[i];
	return err;
}

int pool_open(struct pools *pools, struct pool *pool)
{
	int err = pool_scrubber(pools, pool);

	if (err)
		return err;
	err = extents_init(&pool->extents, pool->job.memory.bytes, pools->grain);
	if (err)
		return err_errno(err, "bookkeeping");
	pool->memory = pool->job.memory;
	pool->job.memory = MEMORY_NONE;
	pool->needs_zeroing = pool->memory.kept;
	pool->opened = true;
	return 0;
}

struct pool *pool_new(const struct pool_params *params)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	list_init(&pool->link);
	list_init(&pool->job.link);
	pool->params = *params;
	pool->endpoints = UINT_MAX;
	pool->job.memory = MEMORY_NONE;
	return pool;
}

void pool_delete(struct pool *pool)
{
	list_remove(&pool->link);
	if (pool->opened) {
		extents_destroy(&pool->extents);
		/* the thread worked on a copy, and may have changed it */
		if (pool->resizing != POOL_GROWS && pool->resizing != POOL_SHRINKS)
			pool->job.memory = pool->memory;
	}
	memory_close(&pool->job.memory);
	free(pool);
}

static uint64_t pool_bytes_to(const struct pool *pool)
{
	switch (pool->resizing) {
	case POOL_GROWS:
		return pool->job.bytes;
	case POOL_CLOSES:
		return pool->close_to;
	case POOL_REOPENS:
		return pool->extents.bytes;
	case POOL_RESTS:
	case POOL_RECLAIMS:
	case POOL_CUTS:
	case POOL_SHRINKS:
	case POOL_EMPTY:
		break;
	}
	return pool->extents.end;
}

struct pool_status pool_status(const struct pools *pools, const struct pool *pool)
{
	struct pool_status status = {
		.name = pool->params.name,
		.node_asked = pool->params.node,
		.node_got = pool->memory.node,
		.pages_asked = pool->params.pages,
		.pages_got = pool->memory.pages,
		.page_bytes = pool->memory.page_bytes,
		.file = pool->memory.fd,
		.bytes_asked = pool->params.bytes,
		.bytes = pool->extents.bytes,
		.lent = pool->extents.sum[BLOCK_LENT],
		.scrubbing = pool->extents.sum[BLOCK_DIRTY],
		.free = pool->extents.sum[BLOCK_FREE],
		.closed = pool->extents.sum[BLOCK_CLOSED],
		.largest_free = extents_largest(&pool->extents, pools->grain),
		.releasing = pool->releasing,
		.scrubbed_ever = pool->scrubbed_ever,
		.endpoints = pool->endpoints,
		.resizing = pool->resizing,
		.leaving = pool->leaving,
		.bytes_to = pool_bytes_to(pool),
	};

	if (pool->resizing == POOL_GROWS)
		status.populated = atomic_load(&pool->job.work.done);
	if (pool->resizing == POOL_RECLAIMS)
		status.to_reclaim = pool->extents.bytes - pool->extents.end -
				    pool->extents.sum[BLOCK_CLOSED];
	return status;
}
