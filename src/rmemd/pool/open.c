/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening all pools.  Pools of different nodes are opened at the same time, by a thread for each
 * node; pools of one node one after the other, each by all CPUs of the node; pools of any node when
 * bound pools have their memory; pools of `size = auto` when all others have theirs. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/pool/host.h"
#include "rmemd/pool/pool.h"

#define TELL_MS 1000
/* Of the 47 bits of addresses the pools together reserve at most this, so that the rest of the
 * process has room. */
#define SPACE_BYTES (UINT64_C(1) << 46)

/* In this order: free memory is divided when pools of a fixed size have theirs. */
enum stage { STAGE_FIXED, STAGE_FIXED_ANY, STAGE_AUTO, STAGE_AUTO_ANY, STAGES };

struct openings {
	struct pools *pools;
	const struct pools_events *events;
	struct worker *workers; /* of the stage, one for each node */
	unsigned n_workers;
	struct mailbox done;
	atomic_bool stop;
	_Atomic(uint64_t) room;
	struct err_saved failed; /* the first error */
};

/* Runs on a node's thread. */
static bool opening_run(struct worker *worker, struct list *node)
{
	struct pool *pool = container_of(node, struct pool, job.link);
	struct pool_job *job = &pool->job;
	int err;

	(void)worker;
	if (atomic_load(job->work.stop))
		err = err_set(-ECANCELED, "told to stop");
	else
		err = memory_open(&pool->params, &job->work, &job->memory);
	err_save(&job->failed, err);
	return true;
}

/* ---- results ---- */

static void openings_fail(struct openings *openings, int err)
{
	/* later errors may be a consequence of the first */
	if (openings->failed.err)
		return;
	err_save(&openings->failed, err);
	atomic_store(&openings->stop, true);
}

static void opening_done(struct openings *openings, struct pool *pool)
{
	const struct pools_events *events = openings->events;
	struct pools *pools = openings->pools;
	struct pool_status status;
	int err;

	if (!pool->job.failed.err && openings->failed.err)
		return;
	err = pool->job.failed.err ? err_restore(&pool->job.failed)
				   : pool_open(pools, pool);
	if (err) {
		openings_fail(openings,
			      err_prefix(err, "pool '%s'", pool->params.name));
	} else if (events->ready) {
		status = pool_status(pools, pool);
		events->ready(events->ctx, &status, pool->job.work.note);
	}
}

/* ---- the stages ---- */

static void openings_report(struct openings *openings)
{
	const struct pools_events *events = openings->events;
	const struct pools *pools = openings->pools;
	uint64_t done = 0, bytes = 0;
	int err;

	if (!events->populating)
		return;
	for (unsigned i = 0; i < pools->n_pools; i++) {
		done += atomic_load(&pools->pool[i]->job.work.done);
		bytes += atomic_load(&pools->pool[i]->job.work.bytes);
	}
	err = events->populating(events->ctx, done, bytes);
	if (err)
		openings_fail(openings, err);
}

/* Until n pools have been opened or have failed. */
static void openings_await(struct openings *openings, unsigned n)
{
	struct pollfd pollfd = { .fd = mailbox_fd(&openings->done), .events = POLLIN };
	struct list done;

	list_init(&done);
	while (n > 0) {
		/* a spurious wakeup does no harm */
		(void)poll(&pollfd, 1, TELL_MS);
		mailbox_receive(&openings->done, &done);
		list_for_each_entry_safe(struct pool, pool, &done, job.link) {
			list_remove(&pool->job.link);
			opening_done(openings, pool);
			n--;
		}
		openings_report(openings);
	}
}

/* The thread of a node; NULL: openings_fail() was called. */
static struct worker *node_worker(struct openings *openings, int node)
{
	struct worker *worker = openings->workers;
	int err;

	for (unsigned i = 0; i < openings->n_workers; i++, worker++)
		if (worker->node == node)
			return worker;
	err = worker_start(worker, "rmemd-pools", node, opening_run, &openings->done);
	if (err) {
		openings_fail(openings, err);
		return NULL;
	}
	openings->n_workers++;
	return worker;
}

static enum stage stage_of(const struct pool_params *params)
{
	bool any = params->node == POOL_NODE_ANY;

	if (params->bytes == POOL_BYTES_AUTO)
		return any ? STAGE_AUTO_ANY : STAGE_AUTO;
	return any ? STAGE_FIXED_ANY : STAGE_FIXED;
}

static void stage_run(struct openings *openings, enum stage stage)
{
	struct pools *pools = openings->pools;
	unsigned n = 0;

	atomic_store(&openings->room, capacity_available());
	/* before any pool of the stage takes its share */
	for (unsigned i = 0; i < pools->n_pools; i++)
		if (stage_of(&pools->pool[i]->params) == stage)
			capacity_free(pools->pool[i]->params.node,
				      pools->pool[i]->job.work.free);
	for (unsigned i = 0; i < pools->n_pools && !openings->failed.err; i++) {
		struct pool *pool = pools->pool[i];
		struct worker *worker;

		if (stage_of(&pool->params) != stage)
			continue;
		worker = node_worker(openings, pool->params.node);
		if (worker) {
			mailbox_post(&worker->jobs, &pool->job.link);
			n++;
		}
	}
	openings_await(openings, n);
	while (openings->n_workers > 0)
		worker_stop(&openings->workers[--openings->n_workers]);
}

/* The address space for each pool: none becomes larger than the host. */
static uint64_t space_share(unsigned n_pools)
{
	uint64_t host =
		(uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t each = SPACE_BYTES / n_pools;

	return host < each ? host : each;
}

static void openings_begin(struct openings *openings, const struct pool_params *params)
{
	struct pools *pools = openings->pools;

	for (unsigned i = 0; i < pools->n_pools; i++) {
		struct pool_job *job = &pools->pool[i]->job;

		job->work.stop = &openings->stop;
		job->work.room = &openings->room;
		job->work.reserve = space_share(pools->n_pools);
		atomic_store(&job->work.bytes, params[i].bytes);
		for (unsigned kind = 0; kind < CAPACITY_KINDS; kind++)
			job->work.share[kind] =
				capacity_share(params, pools->n_pools, i, kind);
	}
	openings_report(openings);
}

/* When one fails the others stop; pools_close() undoes what was opened. */
static int openings_run(struct pools *pools, const struct pool_params *params,
			const struct pools_events *events)
{
	static const struct pools_events no_events;
	struct openings openings = { .pools = pools,
				     .events = events ? events : &no_events };
	int err = mailbox_init(&openings.done);

	if (err)
		return err;
	openings.workers = calloc(pools->n_pools, sizeof(*openings.workers));
	if (!openings.workers) {
		err = err_errno(-ENOMEM, "pools");
		goto out;
	}
	openings_begin(&openings, params);
	for (unsigned stage = 0; stage < STAGES && !openings.failed.err; stage++)
		stage_run(&openings, stage);
	if (openings.failed.err)
		err = err_restore(&openings.failed);
out:
	free(openings.workers);
	mailbox_destroy(&openings.done);
	return err;
}

static int table_open(struct pools *pools, const struct pool_params *params, size_t n)
{
	pools->pool = calloc(n, sizeof(struct pool *));
	for (; pools->pool && pools->n_pools < n; pools->n_pools++) {
		struct pool *pool = pool_new(&params[pools->n_pools]);

		if (!pool)
			break;
		pools->pool[pools->n_pools] = pool;
	}
	return pools->n_pools == n ? 0 : err_errno(-ENOMEM, "pools");
}

int pools_open(const struct pool_params *params, size_t n_params,
	       const struct pools_events *events, struct pools **ret_pools)
{
	struct pools *pools = calloc(1, sizeof(*pools));
	int err;

	if (!pools)
		return err_errno(-ENOMEM, "pools");
	pools->grain = (uint64_t)sysconf(_SC_PAGESIZE);
	pools->extent_max = UINT64_MAX;
	list_init(&pools->coming);
	list_init(&pools->going);
	list_init(&pools->end_free);
	list_init(&pools->freed);
	err = mailbox_init(&pools->done);
	if (err) {
		free(pools);
		return err;
	}
	err = table_open(pools, params, n_params);
	if (!err)
		err = openings_run(pools, params, events);
	if (err) {
		pools_close(pools);
		return err;
	}
	*ret_pools = pools;
	return 0;
}
