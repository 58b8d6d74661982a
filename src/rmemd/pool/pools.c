/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/pools.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/units.h"
#include "rmemd/pool/extents.h"
#include "rmemd/pool/memory.h"
#include "rmemd/pool/opening.h"
#include "rmemd/pool/resizer.h"
#include "rmemd/pool/scrubber.h"
#include "rmemd/pool/stripes.h"

/* What is left after a restart is zeroed in such pieces, so that some is clean soon. */
#define SETTLE_BYTES (UINT64_C(256) << 20)

struct pool {
	struct pool_params params;
	bool opened;        /* has memory and extents */
	unsigned endpoints; /* it is lent through */
	struct memory memory;
	struct extents extents;
	struct scrubber *scrubber; /* of the node; shared with its other pools */
	bool unsettled;            /* what is not lent of it may be anything */
	uint64_t scrubbed_ever;
	enum pool_resizing resizing;
	struct resize_job job; /* POOL_GROWS, POOL_SHRINKS */
	bool job_done;         /* pools_resized() tells of it */
	uint64_t recall_until_ms;
	enum pool_shrink recall_then;
};

struct pools {
	struct pool *pool;
	unsigned n_pools;
	struct scrubber **scrubbers;
	unsigned n_scrubbers;
	struct resizer *resizer; /* NULL: none was needed yet */
	struct mailbox scrubbed; /* blocks, resize jobs, and `cleared` */
	struct list cleared;     /* what was recalled of some pool is back */
	bool cleared_posted;     /* it has not come back from the mailbox yet */
	struct list given;       /* jobs that no scrubber has yet */
	void (*on_given)(void *ctx);
	void *given_ctx;
	uint64_t grain;
	uint64_t extent_max; /* UINT64_MAX: none */
};

const char *pool_pages_name(enum pool_pages pages)
{
	static const char *const names[] = {
		[POOL_PAGES_AUTO] = "auto", [POOL_PAGES_1G] = "1G",
		[POOL_PAGES_2M] = "2M",     [POOL_PAGES_THP] = "thp",
		[POOL_PAGES_BASE] = "base",
	};

	return names[pages];
}

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

/* What opening_run() has to know. */
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
	err = opening_run(params, n_params, &opening_events, &opening);
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
	resizer_stop(pools->resizer);
	for (unsigned i = 0; i < pools->n_scrubbers; i++)
		scrubber_stop(pools->scrubbers[i]);
	for (unsigned i = 0; i < pools->n_pools; i++) {
		if (!pools->pool[i].opened)
			continue;
		extents_destroy(&pools->pool[i].extents);
		/* what the thread was at is as it left it */
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

/* ---- taking ---- */

/* A request while it is being served. */
struct take {
	struct pools *pools;
	uint64_t align;
	unsigned endpoints; /* only pools that are lent through some of these */
	const int *nodes;   /* only pools on these */
	unsigned n_nodes;   /* 0: on any */
	struct block **blocks;
	unsigned max, n;
	uint64_t wanted; /* still */
	uint64_t most;   /* of an extent; a multiple of align */
};

static bool nodes_have(const int *nodes, unsigned n, int node)
{
	for (unsigned i = 0; i < n; i++)
		if (nodes[i] == node)
			return true;
	return false;
}

static bool pool_reached(const struct pool *pool, unsigned endpoints)
{
	return !endpoints || (pool->endpoints & endpoints);
}

static bool take_serves(const struct take *take, const struct pool *pool)
{
	return !pool->unsettled && pool_reached(pool, take->endpoints) &&
	       (take->n_nodes == 0 ||
		nodes_have(take->nodes, take->n_nodes, pool->memory.node));
}

static void take_undo(struct take *take)
{
	while (take->n > 0) {
		struct block *block = take->blocks[--take->n];

		take->wanted += block->bytes;
		/* nobody has had it, so it is clean */
		extents_free(block->extents, block);
	}
}

static void take_keep(struct take *take, struct block *block)
{
	take->blocks[take->n++] = block;
	take->wanted -= block->bytes;
}

/* From one pool as one extent. */
static int pool_take(struct take *take, struct pool *pool)
{
	uint64_t page = pool->memory.page_bytes;
	struct block *block = NULL;
	int err = -ENOSPC;

	/* a translation of the NIC then covers no other lease */
	if (take->wanted >= page && page > take->align)
		err = extents_take(&pool->extents, take->wanted, page, &block);
	if (err == -ENOSPC)
		err = extents_take(&pool->extents, take->wanted, take->align, &block);
	if (!err)
		take_keep(take, block);
	return err;
}

/* As one extent: from the pool that has most to give, which spreads leases over nodes and
 * devices; from another if that is too fragmented. */
static int take_single(struct take *take)
{
	struct pools *pools = take->pools;
	struct pool *most = NULL;
	int err = -ENOSPC;

	for (unsigned i = 0; i < pools->n_pools; i++)
		if (take_serves(take, &pools->pool[i]) &&
		    (!most || pools->pool[i].extents.free > most->extents.free))
			most = &pools->pool[i];
	if (most)
		err = pool_take(take, most);
	for (unsigned i = 0; i < pools->n_pools && err == -ENOSPC; i++)
		if (&pools->pool[i] != most && take_serves(take, &pools->pool[i]))
			err = pool_take(take, &pools->pool[i]);
	return err;
}

static struct pool *pool_of_largest(const struct take *take)
{
	struct pools *pools = take->pools;
	struct pool *best = NULL;
	uint64_t best_bytes = 0;

	for (unsigned i = 0; i < pools->n_pools; i++) {
		struct pool *pool = &pools->pool[i];
		uint64_t bytes = take_serves(take, pool)
					 ? extents_largest(&pool->extents, take->align)
					 : 0;

		if (bytes > best_bytes) {
			best = pool;
			best_bytes = bytes;
		}
	}
	return best;
}

/* As several: the largest there are, then what just holds the rest. */
static int take_several(struct take *take)
{
	int err = -ENOSPC;

	while (take->wanted > 0 && take->n < take->max) {
		struct pool *pool;
		struct block *block;

		err = take_single(take);
		if (err != -ENOSPC)
			break;
		pool = pool_of_largest(take);
		if (!pool)
			break;
		err = extents_take_most(&pool->extents, take->wanted, take->align,
					&block);
		if (err)
			break;
		take_keep(take, block);
	}
	if (take->wanted == 0)
		return 0;
	take_undo(take);
	return err ? err : -ENOSPC;
}

/* The nodes that have clean memory for it. */
static unsigned take_nodes(const struct take *take, int *nodes)
{
	const struct pools *pools = take->pools;
	unsigned n = 0;

	for (unsigned i = 0; i < pools->n_pools; i++) {
		const struct pool *pool = &pools->pool[i];

		if (take_serves(take, pool) && pool->extents.free > 0 &&
		    !nodes_have(nodes, n, pool->memory.node))
			nodes[n++] = pool->memory.node;
	}
	return n;
}

/* In stripes, each on the node whose turn it is, or where there is room. */
static int take_stripes(struct take *take, int *nodes)
{
	uint64_t wanted = take->wanted;
	unsigned n_nodes = take_nodes(take, nodes);
	struct stripes stripes;
	int err = 0;

	stripes_plan(wanted, take->align, n_nodes, take->max, &stripes);
	if (stripes.n < 2)
		return -ENOSPC;
	for (unsigned i = 0; i < stripes.n && !err; i++) {
		take->wanted = stripes_bytes(&stripes, i);
		take->nodes = &nodes[i % n_nodes];
		take->n_nodes = 1;
		err = take_single(take);
		take->n_nodes = 0;
		if (err == -ENOSPC)
			err = take_single(take);
	}
	if (!err)
		return 0;
	take_undo(take);
	take->wanted = wanted;
	return err;
}

static int take_interleaved(struct take *take)
{
	int *nodes = calloc(take->pools->n_pools, sizeof(int));
	int err;

	if (!nodes)
		return -ENOMEM;
	err = take_stripes(take, nodes);
	free(nodes);
	return err;
}

/* Where to cut a block: at a page of its pool if that can be. */
static uint64_t take_most(const struct take *take, const struct block *block)
{
	const struct pool *pool = container_of(block->extents, struct pool, extents);
	uint64_t page = pool->memory.page_bytes;

	return page > take->align && take->most > page ? take->most / page * page
						       : take->most;
}

/* Into pieces that are not too long. */
static int take_cut(struct take *take)
{
	for (unsigned i = 0; i < take->n; i++) {
		struct block *block = take->blocks[i], *rest;
		int err;

		if (block->bytes <= take->most)
			continue;
		if (take->n == take->max)
			return -ENOSPC;
		err = extents_split(block->extents, block, take_most(take, block),
				    &rest);
		if (err)
			return err;
		memmove(&take->blocks[i + 2], &take->blocks[i + 1],
			(take->n - i - 1) * sizeof(struct block *));
		take->blocks[i + 1] = rest;
		take->n++;
	}
	return 0;
}

/* ---- would it do once all is clean? ---- */

struct runs {
	uint64_t align, most;
	unsigned max, n;
	uint64_t *bytes; /* the largest runs; a heap with the least on top */
	uint64_t sum;
};

static void heap_sink(uint64_t *heap, unsigned n, unsigned i)
{
	for (;;) {
		unsigned child = 2 * i + 1;
		uint64_t value = heap[i];

		if (child + 1 < n && heap[child + 1] < heap[child])
			child++;
		if (child >= n || heap[child] >= value)
			return;
		heap[i] = heap[child];
		heap[child] = value;
		i = child;
	}
}

static void runs_add_piece(struct runs *runs, uint64_t usable)
{
	if (runs->n == runs->max) {
		if (usable <= runs->bytes[0])
			return;
		runs->sum += usable - runs->bytes[0];
		runs->bytes[0] = usable;
		heap_sink(runs->bytes, runs->n, 0);
		return;
	}
	runs->bytes[runs->n++] = usable;
	runs->sum += usable;
	/* becomes a heap when it is full */
	if (runs->n == runs->max)
		for (unsigned i = runs->n / 2; i-- > 0;)
			heap_sink(runs->bytes, runs->n, i);
}

static void runs_add(void *ctx, uint64_t offset, uint64_t bytes)
{
	struct runs *runs = ctx;
	uint64_t skip = -offset & (runs->align - 1), piece;

	for (unsigned i = 0; skip < bytes && i < runs->max; i++) {
		piece = bytes - skip < runs->most ? bytes - skip : runs->most;
		runs_add_piece(runs, piece);
		skip += piece;
	}
}

/* Only asked when a request cannot be served, so it may take its time. */
static bool pools_would_do(const struct pools *pools, const struct take *take)
{
	struct runs runs = { .align = take->align,
			     .most = take->most,
			     .max = take->max };
	uint64_t dirty = 0, clean = 0;

	for (unsigned i = 0; i < pools->n_pools; i++) {
		if (!pool_reached(&pools->pool[i], take->endpoints))
			continue;
		dirty += pools->pool[i].extents.dirty;
		clean += pools->pool[i].extents.free;
	}
	if (dirty == 0 || clean + dirty < take->wanted)
		return false;
	runs.bytes = calloc(take->max, sizeof(*runs.bytes));
	if (!runs.bytes)
		return false;
	for (unsigned i = 0; i < pools->n_pools; i++)
		if (pool_reached(&pools->pool[i], take->endpoints))
			extents_each_run(&pools->pool[i].extents, runs_add, &runs);
	free(runs.bytes);
	return runs.sum >= take->wanted;
}

static int pools_full(const struct pools *pools, const struct pool_request *request,
		      unsigned max)
{
	char wanted[32], clean_text[32], largest_text[32], total_text[32];
	uint64_t bytes = request->bytes, clean = 0, largest = 0, total = 0;

	for (unsigned i = 0; i < pools->n_pools; i++) {
		const struct extents *extents = &pools->pool[i].extents;
		uint64_t one;

		if (!pool_reached(&pools->pool[i], request->endpoints))
			continue;
		one = extents_largest(extents, pools->grain);
		clean += extents->free;
		total += extents->end;
		if (one > largest)
			largest = one;
	}
	if (total == 0)
		return err_set(
			-ENOSPC,
			"no pool is lent through an RDMA device that this session "
			"uses ([pool NAME] devices): use others, or TCP");
	if (bytes > total)
		return err_set(
			-ENOSPC,
			"no room for %s: the pools have %s in all; ask for less",
			units_format_bytes(bytes, wanted, sizeof(wanted)),
			units_format_bytes(total, total_text, sizeof(total_text)));
	return err_set(-ENOSPC,
		       "no room for %s: %s are free, the largest piece is %s, a lease "
		       "takes at "
		       "most %u pieces here; ask for less or have leases freed",
		       units_format_bytes(bytes, wanted, sizeof(wanted)),
		       units_format_bytes(clean, clean_text, sizeof(clean_text)),
		       units_format_bytes(largest, largest_text, sizeof(largest_text)),
		       max);
}

/* However much is free. */
static int pools_too_long(const struct take *take)
{
	char wanted[32], most[32];

	return err_set(
		-ENOSPC,
		"no room for %s: an RDMA device here registers %s at once, and a lease "
		"takes at most %u pieces; ask for less",
		units_format_bytes(take->wanted, wanted, sizeof(wanted)),
		units_format_bytes(take->most, most, sizeof(most)), take->max);
}

static int take_one_way(struct take *take, int (*way)(struct take *take))
{
	int err = way(take);

	if (!err) {
		err = take_cut(take);
		if (err)
			take_undo(take);
	}
	return err;
}

/* In stripes, if it is to be; on the nodes that are preferred in one piece, in several; then
 * wherever. */
static int take_any_way(struct take *take, const struct pool_request *request)
{
	static int (*const ways[])(struct take * take) = { take_single, take_several };
	int err = -ENOSPC;

	if (request->interleave)
		err = take_one_way(take, take_interleaved);
	take->nodes = request->nodes;
	for (unsigned i = request->n_nodes ? 0 : 2; i < 4 && err == -ENOSPC; i++) {
		take->n_nodes = i < 2 ? request->n_nodes : 0;
		err = take_one_way(take, ways[i % 2]);
	}
	return err;
}

int pools_take(struct pools *pools, const struct pool_request *request,
	       struct extent *ret_extents, unsigned max, unsigned *ret_n)
{
	uint64_t bytes = request->bytes, align = request->align;
	struct take take = { .pools = pools,
			     .max = max,
			     .endpoints = request->endpoints };
	int err = -ENOSPC;

	if (bytes > UINT64_MAX - pools->grain)
		return pools_full(pools, request, max);
	take.wanted = (bytes + pools->grain - 1) / pools->grain * pools->grain;
	take.align = align > pools->grain ? align : pools->grain;
	take.most = pools->extent_max / take.align * take.align;
	/* what then is too long for a device it refuses by name */
	if (!take.most)
		take.most = take.align;
	if (max > 0 && (take.wanted - 1) / take.most >= max)
		return pools_too_long(&take);
	take.blocks = calloc(max, sizeof(struct block *));
	if (!take.blocks)
		return err_errno(-ENOMEM, "lease of %" PRIu64 " bytes", bytes);
	if (max > 0)
		err = take_any_way(&take, request);
	if (!err) {
		for (unsigned i = 0; i < take.n; i++)
			ret_extents[i] = (struct extent){
				.pool = container_of(take.blocks[i]->extents,
						     struct pool, extents),
				.offset = take.blocks[i]->offset,
				.bytes = take.blocks[i]->bytes,
			};
		*ret_n = take.n;
	} else if (err == -ENOMEM) {
		err = err_errno(err, "lease of %" PRIu64 " bytes", bytes);
	} else if (pools_would_do(pools, &take)) {
		err = err_set(-EAGAIN, "memory given back is still being zeroed");
	} else {
		err = pools_full(pools, request, max);
	}
	free(take.blocks);
	return err;
}

/* ---- giving back ---- */

static void block_clean(struct pools *pools, struct block *block)
{
	const struct pool *pool = container_of(block->extents, struct pool, extents);
	bool first = list_empty(&pools->given);

	block->job.addr = pool->memory.addr + block->offset;
	block->job.bytes = block->bytes;
	list_append(&pools->given, &block->job.link);
	if (!pools->on_given)
		pools_scrub(pools);
	else if (first)
		pools->on_given(pools->given_ctx);
}

void pools_on_given(struct pools *pools, void (*given)(void *ctx), void *ctx)
{
	pools->on_given = given;
	pools->given_ctx = ctx;
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

/* Whoever waits for what was recalled hears of it by pools_fd(). */
static void look_cleared(struct pools *pools, const struct pool *pool)
{
	if (pool->resizing != POOL_RECALLS || !extents_cleared(&pool->extents) ||
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

/* Memory given back twice could be lent twice: never go on then. */
static struct block *block_of(const struct extent *extent)
{
	struct block *block = extents_find(&extent->pool->extents, extent->offset);

	assert(block && block->bytes == extent->bytes);
	return block;
}

void pools_give(struct pools *pools, struct extent extent)
{
	block_give(pools, extent.pool, block_of(&extent));
}

uint64_t pools_give_tail(struct pools *pools, struct extent *extent, uint64_t keep)
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

	while (!(err = extents_take_most(&pool->extents, SETTLE_BYTES, pools->grain,
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

/* A node that may be a job's rather than a block's. */
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

/* ---- resizing ---- */

uint64_t pools_round(const struct pools *pools, unsigned i, uint64_t bytes)
{
	uint64_t page = pools->pool[i].memory.page_bytes;

	return (bytes + page - 1) / page * page;
}

static int resizer_need(struct pools *pools)
{
	return pools->resizer ? 0 : resizer_start(&pools->scrubbed, &pools->resizer);
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
	/* nobody looks at what goes */
	if (bytes < pool->memory.bytes)
		pool->memory.bytes = bytes;
	resizer_post(pools->resizer, job);
}

int pools_grow(struct pools *pools, unsigned i, uint64_t bytes)
{
	struct pool *pool = &pools->pool[i];
	int err = extents_grow_reserve(&pool->extents);

	assert(pool->resizing == POOL_RESTS && bytes > pool->extents.bytes);
	err = err ? err_errno(err, "bookkeeping") : resizer_need(pools);
	if (!err)
		job_post(pools, pool, POOL_GROWS, bytes);
	return err;
}

void pools_grow_stop(struct pools *pools, unsigned i)
{
	atomic_store(&pools->pool[i].job.stop, true);
}

int pools_recall(struct pools *pools, unsigned i, uint64_t bytes, uint64_t until_ms,
		 enum pool_shrink then)
{
	struct pool *pool = &pools->pool[i];
	int err = resizer_need(pools);

	assert(pool->resizing == POOL_RESTS);
	if (err)
		return err;
	err = extents_close(&pool->extents, bytes);
	if (err)
		return err_errno(err, "bookkeeping");
	pool->resizing = POOL_RECALLS;
	pool->recall_until_ms = until_ms;
	pool->recall_then = then;
	return 0;
}

static void on_soiled(void *ctx, struct block *block)
{
	block_clean(ctx, block);
}

void pools_recall_end(struct pools *pools, unsigned i)
{
	struct pool *pool = &pools->pool[i];

	assert(pool->resizing == POOL_RECALLS);
	pool->resizing = POOL_RESTS;
	extents_reopen(&pool->extents, on_soiled, pools);
}

void pools_shrink(struct pools *pools, unsigned i)
{
	struct pool *pool = &pools->pool[i];

	if (pool->resizing == POOL_RECALLS)
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

const struct pool_params *pools_params(const struct pools *pools, unsigned i)
{
	return &pools->pool[i].params;
}

void extent_recall(const struct extent *extent, struct pool_recall *ret_recall)
{
	const struct pool *pool = extent->pool;
	uint64_t end = extent->offset + extent->bytes, keep = pool->extents.end;

	*ret_recall = (struct pool_recall){ .until_ms = pool->recall_until_ms,
					    .then = pool->recall_then };
	if (pool->resizing == POOL_RECALLS && end > keep)
		ret_recall->bytes =
			end - (extent->offset > keep ? extent->offset : keep);
}

/* ---- facts ---- */

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
		.scrubbed_ever = pool->scrubbed_ever,
		.resizing = pool->resizing,
		.bytes_to = pool->resizing == POOL_GROWS ? pool->job.bytes
							 : pool->extents.end,
	};
	if (pool->resizing == POOL_GROWS)
		ret_status->populated = atomic_load(&pool->job.work.watch.done);
	if (pool->resizing == POOL_RECALLS)
		ret_status->recalled =
			pool->extents.bytes - pool->extents.end - pool->extents.closed;
}

int pools_node(const struct pools *pools, unsigned i)
{
	return memory_node(&pools->pool[i].memory);
}
