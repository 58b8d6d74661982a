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

#define TEXT_BYTES 512
#define TELL_MS 1000
/* Of the 47 bits of addresses the pools together reserve at most this, so that the rest of the
 * process has room. */
#define SPACE_BYTES (UINT64_C(1) << 46)

/* In this order: free memory is divided when pools of a fixed size have theirs. */
enum stage { STAGE_FIXED, STAGE_FIXED_ANY, STAGE_AUTO, STAGE_AUTO_ANY, STAGES };

/* The opening of one pool.  Its node's thread owns it until it is in the mailbox. */
struct opening {
	struct list link;
	struct pool *pool;
	enum stage stage;
	struct memory_work work;
	struct memory memory;
	int err;
	char text[TEXT_BYTES];
};

struct openings {
	struct pools *pools;
	const struct pools_events *events;
	struct opening *by_pool;
	struct worker *workers; /* of the stage, one for each node */
	unsigned n, n_workers;
	struct mailbox done;
	atomic_bool stop;
	_Atomic(uint64_t) room;
	int err; /* the first */
	char text[TEXT_BYTES];
};

/* Runs on a node's thread. */
static bool opening_run(struct worker *worker, struct list *node)
{
	struct opening *opening = container_of(node, struct opening, link);
	const struct pool_params *params = &opening->pool->params;

	(void)worker;
	if (atomic_load(opening->work.stop))
		opening->err = err_set(-ECANCELED, "told to stop");
	else
		opening->err = memory_open(params, &opening->work, &opening->memory);
	if (opening->err) {
		(void)err_prefix(opening->err, "pool '%s'", params->name);
		(void)snprintf(opening->text, sizeof(opening->text), "%s", err_text());
	}
	return true;
}

/* ---- memory becomes a pool ---- */

static int pool_scrubber(struct pools *pools, struct pool *pool)
{
	int err;

	pool->scrubber = pools->scrubbers;
	for (unsigned i = 0; i < pools->n_scrubbers; i++, pool->scrubber++)
		if (pool->scrubber->worker.node == pool->memory.node)
			return 0;
	err = scrubber_start(pool->scrubber, pool->memory.node, &pools->done);
	pools->n_scrubbers += !err;
	return err;
}

/* Make a pool of the memory, and own the memory, also on failure. */
static int pool_open(struct pools *pools, struct pool *pool,
		     const struct memory *memory)
{
	int err = extents_init(&pool->extents, memory->bytes, pools->grain);

	pool->memory = *memory;
	pool->needs_zeroing = memory->kept;
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

static void openings_fail(struct openings *openings, int err, const char *text)
{
	/* later errors may be a consequence of the first */
	if (openings->err)
		return;
	openings->err = err;
	(void)snprintf(openings->text, sizeof(openings->text), "%s", text);
	atomic_store(&openings->stop, true);
}

static void opening_done(struct openings *openings, struct opening *opening)
{
	const struct pools_events *events = openings->events;
	struct pools *pools = openings->pools;
	struct pool_status status;
	int err;

	if (opening->err) {
		openings_fail(openings, opening->err, opening->text);
		return;
	}
	if (openings->err) {
		memory_close(&opening->memory);
		return;
	}
	err = pool_open(pools, opening->pool, &opening->memory);
	if (err) {
		openings_fail(openings, err, err_text());
	} else if (events->ready) {
		status = pools_status(pools, (unsigned)(opening - openings->by_pool));
		events->ready(events->ctx, &status, opening->work.note);
	}
}

/* ---- the stages ---- */

static void openings_report(const struct openings *openings)
{
	const struct pools_events *events = openings->events;
	uint64_t done = 0, bytes = 0;

	for (unsigned i = 0; i < openings->n; i++) {
		done += atomic_load(&openings->by_pool[i].work.done);
		bytes += atomic_load(&openings->by_pool[i].work.bytes);
	}
	if (events->populating)
		events->populating(events->ctx, done, bytes);
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
		list_for_each_entry_safe(struct opening, opening, &done, link) {
			list_remove(&opening->link);
			opening_done(openings, opening);
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
		openings_fail(openings, err, err_text());
		return NULL;
	}
	openings->n_workers++;
	return worker;
}

static void stage_run(struct openings *openings, enum stage stage)
{
	unsigned n = 0;

	atomic_store(&openings->room, capacity_available());
	/* before any pool of the stage takes its share */
	for (unsigned i = 0; i < openings->n; i++)
		if (openings->by_pool[i].stage == stage)
			capacity_free(openings->by_pool[i].pool->params.node,
				      openings->by_pool[i].work.free);
	for (unsigned i = 0; i < openings->n && !openings->err; i++) {
		struct opening *opening = &openings->by_pool[i];
		struct worker *worker;

		if (opening->stage != stage)
			continue;
		worker = node_worker(openings, opening->pool->params.node);
		if (worker) {
			worker_post(worker, &opening->link);
			n++;
		}
	}
	openings_await(openings, n);
	while (openings->n_workers > 0)
		worker_stop(&openings->workers[--openings->n_workers]);
}

static enum stage stage_of(const struct pool_params *params)
{
	bool any = params->node == POOL_NODE_ANY;

	if (params->bytes == POOL_BYTES_AUTO)
		return any ? STAGE_AUTO_ANY : STAGE_AUTO;
	return any ? STAGE_FIXED_ANY : STAGE_FIXED;
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
	host_probe();
	for (unsigned i = 0; i < openings->n; i++) {
		struct opening *opening = &openings->by_pool[i];

		list_init(&opening->link);
		opening->pool = &openings->pools->pool[i];
		opening->stage = stage_of(&params[i]);
		opening->work.stop = &openings->stop;
		opening->work.room = &openings->room;
		opening->work.reserve = space_share(openings->n);
		atomic_store(&opening->work.bytes, params[i].bytes);
		for (unsigned kind = 0; kind < CAPACITY_KINDS; kind++)
			opening->work.share[kind] =
				capacity_share(params, openings->n, i, kind);
	}
	openings_report(openings);
}

/* When one fails the others stop; pools_close() undoes what was opened. */
static int openings_run(struct pools *pools, const struct pool_params *params,
			const struct pools_events *events)
{
	static const struct pools_events no_events;
	struct openings openings = { .pools = pools,
				     .events = events ? events : &no_events,
				     .n = pools->n_pools };
	int err = mailbox_init(&openings.done);

	if (err)
		return err;
	openings.by_pool = calloc(openings.n, sizeof(*openings.by_pool));
	openings.workers = calloc(openings.n, sizeof(*openings.workers));
	if (!openings.by_pool || !openings.workers) {
		err = err_errno(-ENOMEM, "pools");
		goto out;
	}
	openings_begin(&openings, params);
	for (unsigned stage = 0; stage < STAGES && !openings.err; stage++)
		stage_run(&openings, stage);
	err = openings.err;
	if (err)
		(void)err_set(err, "%s", openings.text);
out:
	free(openings.workers);
	free(openings.by_pool);
	mailbox_destroy(&openings.done);
	return err;
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
	list_init(&pools->end_free);
	list_init(&pools->freed);
	err = mailbox_init(&pools->done);
	if (err) {
		free(pools);
		return err;
	}
	pools->pool = calloc(n_params, sizeof(*pools->pool));
	pools->scrubbers = calloc(n_params, sizeof(*pools->scrubbers));
	if (!pools->pool || !pools->scrubbers) {
		err = err_errno(-ENOMEM, "pools");
		goto err_close;
	}
	for (; pools->n_pools < n_params; pools->n_pools++) {
		pools->pool[pools->n_pools].params = params[pools->n_pools];
		pools->pool[pools->n_pools].endpoints = UINT_MAX;
	}
	err = openings_run(pools, params, events);
	if (err)
		goto err_close;
	*ret_pools = pools;
	return 0;

err_close:
	pools_close(pools);
	return err;
}
