/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that opens, resizes and closes the memory of pools, one after the other. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/pool/pool.h"

/* Memory is added: to the pool, or all of it. */
static int job_add(const struct pool *pool, struct pool_job *job)
{
	_Atomic(uint64_t) room;

	if (atomic_load(&job->stop))
		return err_set(-ECANCELED, "told to stop");
	job->work.stop = &job->stop;
	job->work.room = &room;
	atomic_init(&room, capacity_available());
	if (job->kind == POOL_JOB_OPEN)
		return memory_open(&pool->params, &job->work, &job->memory);
	return memory_grow(&job->memory, job->bytes, pool->params.node, &job->work);
}

/* Runs on the thread, which owns the job. */
static bool job_run(struct worker *worker, struct list *node)
{
	struct pool *pool = container_of(node, struct pool, job.link);
	struct pool_job *job = &pool->job;
	int err = 0;

	(void)worker;
	if (job->kind == POOL_JOB_CLOSE)
		memory_give_back(&job->memory);
	else if (job->kind == POOL_JOB_RESIZE && job->bytes < job->memory.bytes)
		err = memory_cut(&job->memory, job->bytes);
	else
		err = job_add(pool, job);
	err_save(&job->failed, err);
	return true;
}

int pool_jobs_start(struct pools *pools)
{
	int err;

	if (pools->has_resizer)
		return 0;
	err = worker_start(&pools->resizer, "rmemd-resize", -1, job_run, &pools->done);
	pools->has_resizer = !err;
	return err;
}

void pool_job_post(struct pools *pools, struct pool *pool, enum pool_job_kind kind)
{
	pool->job.kind = kind;
	mailbox_post(&pools->resizer.jobs, &pool->job.link);
}

/* The pool of a job's message, or NULL. */
static struct pool *pool_of_job(struct pools *pools, const struct list *message)
{
	for (unsigned i = 0; i < pools->n_pools; i++)
		if (message == &pools->pool[i]->job.link)
			return pools->pool[i];
	list_for_each_entry(struct pool, pool, &pools->coming, link)
		if (message == &pool->job.link)
			return pool;
	list_for_each_entry(struct pool, pool, &pools->going, link)
		if (message == &pool->job.link)
			return pool;
	return NULL;
}

bool pool_job_done(struct pools *pools, const struct list *message)
{
	struct pool *pool = pool_of_job(pools, message);

	if (!pool)
		return false;
	if (pool->job.kind == POOL_JOB_RESIZE)
		pool->memory = pool->job.memory;
	pool->job_done = true;
	return true;
}
