/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/auto_size.h"

#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "rmemd/pool/host.h"

#define WHOLE 100 /* per cent */
#define PAGE_1G (UINT64_C(1) << 30)
#define PAGE_2M (UINT64_C(1) << 21)

/* Per cent that pools without a share of their own divide. */
static const unsigned divided[AUTO_SIZE_KINDS] = {
	[AUTO_SIZE_1G] = 100, [AUTO_SIZE_2M] = 100, [AUTO_SIZE_MEMORY] = 50
};

static const char *const kind_names[AUTO_SIZE_KINDS] = {
	[AUTO_SIZE_1G] = "free pages of 1G",
	[AUTO_SIZE_2M] = "free pages of 2M",
	[AUTO_SIZE_MEMORY] = "free memory",
};

enum auto_size_kind auto_size_kind(enum pool_pages pages)
{
	switch (pages) {
	case POOL_PAGES_1G:
		return AUTO_SIZE_1G;
	case POOL_PAGES_2M:
		return AUTO_SIZE_2M;
	case POOL_PAGES_AUTO:
	case POOL_PAGES_THP:
	case POOL_PAGES_BASE:
		break;
	}
	return AUTO_SIZE_MEMORY;
}

/* Whether it may come to take some of that kind.  What was kept has its memory already, of which
 * nothing is counted as free. */
static bool may_take(const struct pool_params *pool, enum auto_size_kind kind)
{
	return pool->bytes == POOL_BYTES_AUTO && !pool->kept &&
	       (pool->pages == POOL_PAGES_AUTO || auto_size_kind(pool->pages) == kind);
}

/* What the first n pools on a node have in per cent of a kind, and how many have none. */
static unsigned shares_sum(const struct pool_params *pools, size_t n, int node,
			   enum auto_size_kind kind, unsigned *ret_n_without)
{
	unsigned sum = 0, n_without = 0;

	for (size_t i = 0; i < n; i++) {
		if (pools[i].node != node || !may_take(&pools[i], kind))
			continue;
		sum += pools[i].share;
		n_without += pools[i].share == POOL_SHARE_AUTO;
	}
	*ret_n_without = n_without;
	return sum;
}

struct share auto_size_share(const struct pool_params *pools, size_t n, size_t i,
			     enum auto_size_kind kind)
{
	struct share share = { pools[i].share, WHOLE };
	unsigned n_without, sum;

	if (pools[i].share != POOL_SHARE_AUTO || !may_take(&pools[i], kind))
		return share;
	sum = shares_sum(pools, n, pools[i].node, kind, &n_without);
	share.parts = sum < divided[kind] ? divided[kind] - sum : 0;
	share.whole = WHOLE * n_without;
	return share;
}

uint64_t auto_size_bytes(struct share share, uint64_t free, uint64_t page_bytes)
{
	uint64_t pages = free / page_bytes;

	/* a quotient and a rest, as the product may be more than fits */
	return (pages / share.whole * share.parts +
		pages % share.whole * share.parts / share.whole) *
	       page_bytes;
}

void auto_size_free(int node, uint64_t ret_bytes[AUTO_SIZE_KINDS])
{
	static const uint64_t page_bytes[] = {
		[AUTO_SIZE_1G] = PAGE_1G, [AUTO_SIZE_2M] = PAGE_2M
	};
	uint64_t on_host, on_node;
	struct host_huge huge;

	for (unsigned kind = 0; kind < AUTO_SIZE_MEMORY; kind++)
		ret_bytes[kind] = host_huge_pages(page_bytes[kind], node, &huge)
					  ? 0
					  : huge.free * page_bytes[kind];
	if (host_available(-1, &on_host))
		on_host = 0;
	if (host_available(host_has_nodes() ? node : -1, &on_node))
		on_node = on_host;
	ret_bytes[AUTO_SIZE_MEMORY] = on_node < on_host ? on_node : on_host;
}

static const char *node_name(int node, char *buf, size_t buf_bytes)
{
	if (node == POOL_NODE_ANY)
		(void)snprintf(buf, buf_bytes, "any node");
	else
		(void)snprintf(buf, buf_bytes, "node %d", node);
	return buf;
}

static int kind_check(const struct pool_params *pools, size_t n, size_t i,
		      enum auto_size_kind kind)
{
	const struct pool_params *pool = &pools[i];
	unsigned n_without, sum;
	char name[32];

	if (!may_take(pool, kind))
		return 0;
	sum = shares_sum(pools, i + 1, pool->node, kind, &n_without);
	if (pool->share != POOL_SHARE_AUTO && sum > WHOLE)
		return err_set(-EINVAL,
			       "pool '%s': the shares of the pools of %s come to %u%% "
			       "of its %s",
			       pool->name, node_name(pool->node, name, sizeof(name)),
			       sum, kind_names[kind]);
	sum = shares_sum(pools, n, pool->node, kind, &n_without);
	/* with pages of any kind it may find others */
	if (pool->share == POOL_SHARE_AUTO && pool->pages != POOL_PAGES_AUTO &&
	    sum >= divided[kind])
		return err_set(-EINVAL,
			       "pool '%s': without a share it has what the others of "
			       "%s, with %u%%, leave of %u%% of its %s: nothing",
			       pool->name, node_name(pool->node, name, sizeof(name)),
			       sum, divided[kind], kind_names[kind]);
	return 0;
}

int auto_size_check(const struct pool_params *pools, size_t n, size_t *ret_i)
{
	for (size_t i = 0; i < n; i++) {
		for (unsigned kind = 0; kind < AUTO_SIZE_KINDS; kind++) {
			int err = kind_check(pools, n, i, kind);

			if (err) {
				*ret_i = i;
				return err;
			}
		}
	}
	return 0;
}
