/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools are added and removed while others are in use. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/pool/pool.h"

/* Address space for a pool that is added, if that is not less than the host has memory: 128 such
 * pools have room beside those that were there at the start. */
#define SPACE_BYTES (UINT64_C(1) << 39)

static uint64_t space_wanted(void)
{
	uint64_t host =
		(uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	return host < SPACE_BYTES ? host : SPACE_BYTES;
}

/* Make room in the table for all that are coming and one more, so that pools_enter() cannot
 * fail. */
static int table_reserve(struct pools *pools)
{
	unsigned n = pools->n_pools + 1;
	struct pool **table;

	list_for_each_entry(const struct pool, pool, &pools->coming, link)
		n += pool != NULL;
	table = reallocarray(pools->pool, n, sizeof(struct pool *));
	if (!table)
		return err_errno(-ENOMEM, "bookkeeping");
	pools->pool = table;
	return 0;
}

int pools_add(struct pools *pools, const struct pool_params *params,
	      const struct share *shares, const uint64_t *unused,
	      struct pool **ret_pool)
{
	struct memory_work *work;
	struct pool *pool;
	int err = table_reserve(pools);

	if (!err)
		err = pool_jobs_start(pools);
	if (err)
		return err;
	pool = pool_new(params);
	if (!pool)
		return err_errno(-ENOMEM, "bookkeeping");
	work = &pool->job.work;
	work->reserve = space_wanted();
	atomic_store(&work->bytes, params->bytes);
	memcpy(work->share, shares, sizeof(work->share));
	memcpy(work->free, unused, sizeof(work->free));
	list_append(&pools->coming, &pool->link);
	pool_job_post(pools, pool, POOL_JOB_OPEN);
	*ret_pool = pool;
	return 0;
}

void pools_add_stop(struct pool *pool)
{
	atomic_store(&pool->job.stop, true);
}

uint64_t pools_add_progress(const struct pool *pool, uint64_t *ret_bytes)
{
	*ret_bytes = atomic_load(&pool->job.work.bytes);
	return atomic_load(&pool->job.work.done);
}

bool pools_added(struct pools *pools, struct pools_added *ret_added)
{
	list_for_each_entry(struct pool, pool, &pools->coming, link) {
		struct pool_job *job = &pool->job;

		if (!pool->job_done)
			continue;
		pool->job_done = false;
		if (!job->failed.err)
			err_save(&job->failed, pool_open(pools, pool));
		*ret_added = (struct pools_added){
			.pool = pool,
			.err = job->failed.err,
			.text = job->failed.err ? job->failed.text : job->work.note,
		};
		if (!ret_added->err)
			ret_added->status = pool_status(pools, pool);
		return true;
	}
	return false;
}

void pools_enter(struct pools *pools, struct pool *pool)
{
	assert(pool->opened);
	list_remove(&pool->link);
	pools->pool[pools->n_pools++] = pool;
}

static void pool_give_back(struct pools *pools, struct pool *pool)
{
	if (pool->opened) {
		pool->job.memory = pool->memory;
		extents_destroy(&pool->extents);
		pool->opened = false;
	}
	list_move(&pools->going, &pool->link);
	pool_job_post(pools, pool, POOL_JOB_CLOSE);
}

void pools_drop(struct pools *pools, struct pool *pool)
{
	pool_give_back(pools, pool);
}

void pools_remove(struct pools *pools, unsigned i)
{
	struct pool *pool = pools->pool[i];

	assert(pool->resizing == POOL_EMPTY);
	memmove(&pools->pool[i], &pools->pool[i + 1],
		(--pools->n_pools - i) * sizeof(struct pool *));
	pool_give_back(pools, pool);
}

bool pools_dropped(struct pools *pools, struct pools_dropped *ret_dropped)
{
	list_for_each_entry_safe(struct pool, pool, &pools->going, link) {
		if (!pool->job_done)
			continue;
		*ret_dropped = (struct pools_dropped){
			.id = pool->params.id,
			.bytes = pool->job.memory.bytes,
			.entered = pool->resizing == POOL_EMPTY,
		};
		memcpy(ret_dropped->name, pool->params.name, sizeof(pool->params.name));
		pool_delete(pool);
		return true;
	}
	return false;
}
