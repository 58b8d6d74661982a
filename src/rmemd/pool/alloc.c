/* SPDX-License-Identifier: BSD-3-Clause */
/* Which extents of which pools a request gets. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "rmemd/pool/stripes.h"
#include "rmemd/pool/pool.h"

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

/* One that is lent through none reaches nobody. */
static bool pool_reached(const struct pool *pool, unsigned endpoints)
{
	return pool->endpoints & (endpoints ? endpoints : UINT_MAX);
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
		err = extents_alloc(&pool->extents, take->wanted, page, &block);
	if (err == -ENOSPC)
		err = extents_alloc(&pool->extents, take->wanted, take->align, &block);
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
		err = extents_alloc_most(&pool->extents, take->wanted, take->align,
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

int pools_alloc(struct pools *pools, const struct pool_request *request,
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
