/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of extents for a request. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/err.h"
#include "base/units.h"
#include "rmemd/pool/pool.h"
#include "rmemd/pool/stripes.h"

/* A request while it is being served. */
struct request {
	struct pools *pools;
	uint64_t align;
	const struct pool_request *wish;
	const int *nodes; /* only pools on these */
	unsigned n_nodes; /* 0: on any */
	struct extent *extents;
	unsigned max, n;
	uint64_t wanted; /* bytes not allocated yet */
	uint64_t most;   /* longest extent; a multiple of align */
};

/* Whether the request may get memory of the pool at all. */
static bool pool_serves(const struct pool *pool, const struct pool_request *wish)
{
	return !pool->leaving &&
	       pool_request_allows(wish, pool->params.name, pool->endpoints);
}

static bool request_allows(const struct request *request, const struct pool *pool)
{
	bool on_node = request->n_nodes == 0;

	for (unsigned i = 0; i < request->n_nodes; i++)
		on_node |= request->nodes[i] == pool->memory.node;
	return on_node && !pool->needs_zeroing && pool_serves(pool, request->wish);
}

static void request_add(struct request *request, struct pool *pool, struct block *block)
{
	request->extents[request->n++] = extent_of(pool, block);
	request->wanted -= block->bytes;
}

static void request_undo(struct request *request)
{
	while (request->n > 0) {
		const struct extent *extent = &request->extents[--request->n];

		request->wanted += extent->bytes;
		/* the extent was not used, so it is clean */
		extents_free(&extent->pool->extents, extent->block);
	}
}

/* Bytes of all pools that serve the request. */
static uint64_t bytes_serving(const struct pools *pools,
			      const struct pool_request *wish)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < pools->n_pools; i++)
		if (pool_serves(pools->pool[i], wish))
			bytes += pools->pool[i]->extents.end;
	return bytes;
}

/* Allocate one extent from one pool. */
static int alloc_from(struct request *request, struct pool *pool)
{
	uint64_t page = pool->memory.page_bytes;
	struct block *block = NULL;
	int err = -ENOSPC;

	/* at a page, so that no translation entry of the NIC covers another lease too */
	if (request->wanted >= page && page > request->align)
		err = extents_alloc(&pool->extents, request->wanted, page, &block);
	if (err == -ENOSPC)
		err = extents_alloc(&pool->extents, request->wanted, request->align,
				    &block);
	if (!err)
		request_add(request, pool, block);
	return err;
}

/* Allocate one extent: from the pool with most free memory, which spreads leases over nodes and
 * devices; from another one if that is too fragmented. */
static int alloc_single(struct request *request)
{
	struct pools *pools = request->pools;
	struct pool *most = NULL;
	int err = -ENOSPC;

	for (unsigned i = 0; i < pools->n_pools; i++)
		if (request_allows(request, pools->pool[i]) &&
		    (!most || pools->pool[i]->extents.sum[BLOCK_FREE] >
				      most->extents.sum[BLOCK_FREE]))
			most = pools->pool[i];
	if (most)
		err = alloc_from(request, most);
	for (unsigned i = 0; i < pools->n_pools && err == -ENOSPC; i++)
		if (pools->pool[i] != most && request_allows(request, pools->pool[i]))
			err = alloc_from(request, pools->pool[i]);
	return err;
}

/* Allocate as much as possible from the largest free block. */
static int alloc_most(struct request *request)
{
	struct pools *pools = request->pools;
	struct pool *best = NULL;
	uint64_t best_bytes = 0;
	struct block *block;
	int err;

	for (unsigned i = 0; i < pools->n_pools; i++) {
		struct pool *pool = pools->pool[i];
		uint64_t bytes =
			request_allows(request, pool)
				? extents_largest(&pool->extents, request->align)
				: 0;

		if (bytes > best_bytes) {
			best = pool;
			best_bytes = bytes;
		}
	}
	if (!best)
		return -ENOSPC;
	err = extents_alloc_most(&best->extents, request->wanted, request->align,
				 &block);
	if (!err)
		request_add(request, best, block);
	return err;
}

/* Allocate several extents: the largest blocks, then one that just holds the rest. */
static int alloc_several(struct request *request)
{
	int err = 0;

	while (!err && request->wanted > 0) {
		err = request->n < request->max ? alloc_single(request) : -ENOSPC;
		if (err == -ENOSPC && request->n < request->max)
			err = alloc_most(request);
	}
	if (err)
		request_undo(request);
	return err;
}

/* The nodes with clean memory for the request. */
static unsigned nodes_serving(const struct request *request, int *nodes)
{
	const struct pools *pools = request->pools;
	unsigned n = 0, k;

	for (unsigned i = 0; i < pools->n_pools; i++) {
		const struct pool *pool = pools->pool[i];

		if (!request_allows(request, pool) ||
		    pool->extents.sum[BLOCK_FREE] == 0)
			continue;
		for (k = 0; k < n && nodes[k] != pool->memory.node; k++)
			;
		if (k == n)
			nodes[n++] = pool->memory.node;
	}
	return n;
}

/* Allocate stripes on the nodes in turn, or elsewhere if a node is full. */
static int alloc_stripes(struct request *request)
{
	int *nodes = calloc(request->pools->n_pools, sizeof(int)), err = 0;
	uint64_t wanted = request->wanted;
	struct stripes stripes;
	unsigned n_nodes;

	if (!nodes)
		return -ENOMEM;
	n_nodes = nodes_serving(request, nodes);
	stripes_plan(wanted, request->align, n_nodes, request->max, &stripes);
	if (stripes.n < 2)
		err = -ENOSPC;
	for (unsigned i = 0; i < stripes.n && !err; i++) {
		request->wanted = stripes_bytes(&stripes, i);
		request->nodes = &nodes[i % n_nodes];
		request->n_nodes = 1;
		err = alloc_single(request);
		request->n_nodes = 0;
		if (err == -ENOSPC)
			err = alloc_single(request);
	}
	if (err) {
		request_undo(request);
		request->wanted = wanted;
	}
	free(nodes);
	return err;
}

/* Cut extents that are too long, at a page of the pool if possible. */
static int request_cut(struct request *request)
{
	for (unsigned i = 0; i < request->n; i++) {
		struct extent *extent = &request->extents[i];
		uint64_t page = extent->pool->memory.page_bytes, most = request->most;
		struct block *rest;
		int err;

		if (extent->bytes <= most)
			continue;
		if (request->n == request->max)
			return -ENOSPC;
		if (page > request->align && most > page)
			most = most / page * page;
		err = extents_split(&extent->pool->extents, extent->block, most, &rest);
		if (err)
			return err;
		memmove(extent + 2, extent + 1, (request->n - i - 1) * sizeof(*extent));
		extent[1] = extent_of(extent->pool, rest);
		extent->bytes = most;
		request->n++;
	}
	return 0;
}

static int alloc_and_cut(struct request *request, int (*alloc)(struct request *request))
{
	int err = alloc(request);

	if (!err) {
		err = request_cut(request);
		if (err)
			request_undo(request);
	}
	return err;
}

/* In stripes, if asked for; on the preferred nodes in one piece, then in several; then anywhere. */
static int alloc_any(struct request *request)
{
	const struct pool_request *wish = request->wish;
	int err = -ENOSPC;

	if (wish->interleave)
		err = alloc_and_cut(request, alloc_stripes);
	request->nodes = wish->nodes;
	for (unsigned i = wish->n_nodes ? 0 : 1; i < 2 && err == -ENOSPC; i++) {
		request->n_nodes = i == 0 ? wish->n_nodes : 0;
		err = alloc_and_cut(request, alloc_single);
		if (err == -ENOSPC)
			err = alloc_and_cut(request, alloc_several);
	}
	return err;
}

/* ---- is it possible once all is clean? ---- */

/* The number of blocks that one request looks at, so that it does not delay all others. */
#define BLOCKS_MAX 4096

struct runs {
	uint64_t align, most, wanted;
	unsigned max, n;
	uint64_t *bytes; /* of the longest pieces, the longest first */
	uint64_t sum;
};

static void runs_add_part(struct runs *runs, uint64_t bytes)
{
	unsigned i;

	if (runs->n < runs->max)
		runs->n++;
	else if (bytes > runs->bytes[runs->n - 1])
		runs->sum -= runs->bytes[runs->n - 1];
	else
		return;
	for (i = runs->n - 1; i > 0 && runs->bytes[i - 1] < bytes; i--)
		runs->bytes[i] = runs->bytes[i - 1];
	runs->bytes[i] = bytes;
	runs->sum += bytes;
}

static bool runs_add(void *ctx, uint64_t offset, uint64_t bytes)
{
	struct runs *runs = ctx;
	uint64_t skip = align_gap(offset, runs->align), piece;

	for (unsigned i = 0; skip < bytes && i < runs->max; i++) {
		piece = bytes - skip < runs->most ? bytes - skip : runs->most;
		runs_add_part(runs, piece);
		skip += piece;
	}
	return runs->sum < runs->wanted;
}

/* Called only when a request cannot be served.  Of more than BLOCKS_MAX blocks it supposes that
 * they have enough: then the request waits, and fails when all memory is clean, or after its
 * time. */
static bool fits_when_clean(const struct request *request)
{
	struct runs runs = { .align = request->align,
			     .most = request->most,
			     .wanted = request->wanted,
			     .max = request->max };
	const struct pools *pools = request->pools;
	uint64_t dirty = 0, clean = 0;
	unsigned left = BLOCKS_MAX;
	bool all = true;

	for (unsigned i = 0; i < pools->n_pools; i++) {
		if (!pool_serves(pools->pool[i], request->wish))
			continue;
		dirty += pools->pool[i]->extents.sum[BLOCK_DIRTY];
		clean += pools->pool[i]->extents.sum[BLOCK_FREE];
	}
	if (dirty == 0 || clean + dirty < request->wanted)
		return false;
	runs.bytes = calloc(request->max, sizeof(*runs.bytes));
	if (!runs.bytes)
		return false;
	for (unsigned i = 0; i < pools->n_pools && all; i++)
		if (pool_serves(pools->pool[i], request->wish))
			all = extents_each_run(&pools->pool[i]->extents, &left,
					       runs_add, &runs);
	free(runs.bytes);
	return !all;
}

static int set_full_error(const struct pools *pools, const struct pool_request *wish,
			  unsigned max)
{
	uint64_t bytes = wish->bytes, total = bytes_serving(pools, wish);
	uint64_t clean = 0, largest = 0;
	bool allowed = !wish->only, leaving = false;

	for (unsigned i = 0; i < pools->n_pools; i++) {
		const struct extents *extents = &pools->pool[i]->extents;
		uint64_t one;

		if (wish->only)
			allowed |= pool_names_have(wish->only,
						   pools->pool[i]->params.name);
		leaving |= pools->pool[i]->leaving;
		if (!pool_serves(pools->pool[i], wish))
			continue;
		one = extents_largest(extents, pools->grain);
		clean += extents->sum[BLOCK_FREE];
		if (one > largest)
			largest = one;
	}
	if (!allowed)
		return err_set(-ENOSPC, "no pool with an allowed name is open");
	if (total == 0 && leaving)
		return err_set(-ENOSPC,
			       "no room for %s: the pools that have room are being "
			       "removed from the server",
			       UNITS_BYTES(bytes));
	if (total == 0)
		return err_set(
			-ENOSPC,
			"no pool is lent through an RDMA device that this session "
			"uses ([pool NAME] devices): use others, or TCP");
	if (bytes > total)
		return err_set(-ENOSPC,
			       "no room for %s: the pools have %s in all; ask for less",
			       UNITS_BYTES(bytes), UNITS_BYTES(total));
	return err_set(-ENOSPC,
		       "no room for %s: %s are free, the largest piece is %s, a lease "
		       "takes at "
		       "most %u pieces here; ask for less or have leases freed",
		       UNITS_BYTES(bytes), UNITS_BYTES(clean), UNITS_BYTES(largest),
		       max);
}

/* Returns -ENOSPC: no free memory would do. */
static int set_too_long_error(const struct request *request)
{
	return err_set(
		-ENOSPC,
		"no room for %s: an RDMA device here registers %s at once, and a lease "
		"takes at most %u pieces; ask for less",
		UNITS_BYTES(request->wanted), UNITS_BYTES(request->most), request->max);
}

bool pools_may_fit(const struct pools *pools, const struct pool_request *request,
		   unsigned max)
{
	uint64_t free = 0, largest = 0, one;

	for (unsigned i = 0; i < pools->n_pools; i++) {
		const struct pool *pool = pools->pool[i];

		if (pool->needs_zeroing || !pool_serves(pool, request))
			continue;
		free += pool->extents.sum[BLOCK_FREE];
		one = extents_largest(&pool->extents, pools->grain);
		if (one > largest)
			largest = one;
	}
	return free >= request->bytes && max && largest >= request->bytes / max;
}

int pools_alloc(struct pools *pools, const struct pool_request *wish,
		struct extent *ret_extents, unsigned max, unsigned *ret_n)
{
	uint64_t bytes = wish->bytes, grain = pools->grain;
	struct request request = {
		.pools = pools,
		.max = max,
		.wish = wish,
		.extents = ret_extents,
		.align = wish->align > grain ? wish->align : grain,
	};
	int err;

	if (bytes > bytes_serving(pools, wish) || max == 0 ||
	    !checked_align_up(bytes, grain, &request.wanted))
		return set_full_error(pools, wish, max);
	request.most = pools->extent_max / request.align * request.align;
	/* a device may still refuse such an extent */
	if (!request.most)
		request.most = request.align;
	if ((request.wanted - 1) / request.most >= max)
		return set_too_long_error(&request);
	err = alloc_any(&request);
	if (!err)
		*ret_n = request.n;
	else if (err == -ENOMEM)
		err = err_errno(err, "lease of %" PRIu64 " bytes", bytes);
	else if (fits_when_clean(&request))
		err = err_set(-EAGAIN, "memory freed is still being zeroed");
	else
		err = set_full_error(pools, wish, max);
	return err;
}
