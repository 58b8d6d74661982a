/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/stage-pools.h"

#include <check.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/err.h"
#include "unit/rmemd/control-pools.h"
#include "unit/rmemd/stage-fabric.h"
#include "rmemd/lease/lease.h"
#include "rmemd/pool/pools.h"

enum page { FREE, LENT, DIRTY, GAP };

static enum page pages[FAKE_PAGES];
static unsigned n_freed;
static bool can_shorten, hurried, pool_missing;
static struct pool_reclaim reclaimed;
static struct fake_wish wish;
static unsigned break_page;
static char memory[FAKE_PAGES * FAKE_PAGE] __attribute__((aligned(FAKE_PAGE)));

static unsigned count_range(enum page state, unsigned first, unsigned end)
{
	unsigned n = 0;

	for (unsigned i = first; i < end; i++)
		n += pages[i] == state;
	return n;
}

static unsigned count(enum page state)
{
	return count_range(state, 0, FAKE_PAGES);
}

void fake_pools_reset(unsigned gap)
{
	memset(memory, 0, sizeof(memory));
	can_shorten = true;
	break_page = 0;
	fake_pools_lend_through(UINT_MAX, UINT_MAX);
	hurried = false;
	reclaimed.bytes = 0;
	for (unsigned i = 0; i < FAKE_PAGES; i++)
		pages[i] = gap && i % gap == gap - 1 ? GAP : FREE;
}

void fake_pools_scrub(void)
{
	for (unsigned i = 0; i < FAKE_PAGES; i++) {
		if (pages[i] != DIRTY)
			continue;
		pages[i] = FREE;
		memset(memory + (size_t)i * FAKE_PAGE, 0, FAKE_PAGE);
	}
}

unsigned fake_pools_given(void)
{
	return n_freed;
}

void fake_pools_crash(void)
{
	n_freed = 0;
	for (unsigned i = 0; i < FAKE_PAGES; i++)
		if (pages[i] != GAP)
			pages[i] = DIRTY;
}

void fake_pools_take_away(bool missing)
{
	pool_missing = missing;
}

int pools_claim(struct pools *pools, uint32_t id, uint64_t offset, uint64_t bytes,
		struct extent *ret_extent)
{
	uint64_t first = offset / FAKE_PAGE;
	uint64_t n = bytes / FAKE_PAGE + (bytes % FAKE_PAGE != 0);

	(void)pools;
	if (id != 1 || pool_missing)
		return err_set(-ENOENT, "the fake has one pool");
	if (offset % FAKE_PAGE || first >= FAKE_PAGES || n > FAKE_PAGES - first)
		return err_set(-EINVAL, "the range is not in the pool");
	for (uint64_t i = first; i < first + n; i++)
		if (pages[i] != DIRTY)
			return err_set(-EEXIST, "the range is lent already");
	for (uint64_t i = first; i < first + n; i++)
		pages[i] = LENT;
	*ret_extent = (struct extent){ .offset = offset, .bytes = n * FAKE_PAGE };
	return 0;
}

static int add_lent(const struct lease_status *status, void *arg)
{
	*(uint64_t *)arg += status->lent;
	return 0;
}

void fake_pools_check(const struct leases *leases)
{
	uint64_t lent = 0;

	(void)leases_each(leases, 0, add_lent, &lent);
	ck_assert_uint_eq(fake_pools_lent() * FAKE_PAGE, lent);
}

unsigned fake_pools_lent(void)
{
	return count(LENT);
}

unsigned fake_pools_dirty(void)
{
	return count(DIRTY);
}

/* Find the longest run of free pages; returns its length. */
static unsigned longest_run(unsigned *ret_start)
{
	unsigned best = 0, run = 0;

	for (unsigned i = 0; i < FAKE_PAGES; i++) {
		if (i == break_page)
			run = 0;
		run = pages[i] == FREE ? run + 1 : 0;
		if (run > best) {
			best = run;
			*ret_start = i + 1 - run;
		}
	}
	return best;
}

bool pools_may_fit(const struct pools *pools, const struct pool_request *request,
		   unsigned max)
{
	(void)pools;
	(void)max;
	return (uint64_t)count(FREE) * FAKE_PAGE >= request->bytes;
}

int pools_alloc(struct pools *pools, const struct pool_request *request,
		struct extent *ret_extents, unsigned max, unsigned *ret_n)
{
	uint64_t bytes = request->bytes;
	uint64_t wanted = bytes / FAKE_PAGE + (bytes % FAKE_PAGE != 0);
	enum page before[FAKE_PAGES];
	unsigned n = 0;

	(void)pools;
	ck_assert_uint_gt(bytes, 0);
	wish.interleave = request->interleave;
	wish.align = request->align;
	wish.n_nodes = request->n_nodes;
	wish.endpoints = request->endpoints;
	wish.only = request->only;
	for (unsigned i = 0; i < wish.n_nodes; i++)
		wish.nodes[i] = request->nodes[i];
	memcpy(before, pages, sizeof(before));
	if (wanted > count(FREE))
		return wanted <= count(FREE) + count(DIRTY)
			       ? -EAGAIN
			       : err_set(-ENOSPC, "the fake is full");
	while (wanted && n < max) {
		unsigned start = 0, run = longest_run(&start);

		if (run > wanted)
			run = (unsigned)wanted;
		for (unsigned i = 0; i < run; i++)
			pages[start + i] = LENT;
		ret_extents[n++] =
			(struct extent){ .offset = (uint64_t)start * FAKE_PAGE,
					 .bytes = (uint64_t)run * FAKE_PAGE };
		wanted -= run;
	}
	if (wanted) {
		memcpy(pages, before, sizeof(before));
		return err_set(-ENOSPC, "the fake is fragmented");
	}
	*ret_n = n;
	return 0;
}

void pools_free(struct pools *pools, struct extent extent)
{
	(void)pools;
	n_freed++;
	ck_assert_msg(!fake_fabric_reaches(memory + extent.offset, extent.bytes),
		      "memory is freed before its key is dead");
	for (uint64_t i = 0; i < extent.bytes / FAKE_PAGE; i++) {
		ck_assert_int_eq(pages[extent.offset / FAKE_PAGE + i], LENT);
		pages[extent.offset / FAKE_PAGE + i] = DIRTY;
	}
}

void fake_pools_reclaim(unsigned n, uint64_t until_ms, bool revoke)
{
	reclaimed = (struct pool_reclaim){
		.bytes = (uint64_t)n * FAKE_PAGE,
		.until_ms = until_ms,
		.then = revoke ? POOL_SHRINK_REVOKE : POOL_SHRINK_REFUSE,
	};
}

struct pool_reclaim extent_reclaim(const struct extent *extent)
{
	uint64_t end = extent->offset + extent->bytes;
	uint64_t keep = sizeof(memory) - reclaimed.bytes;
	struct pool_reclaim reclaim = reclaimed;

	reclaim.bytes =
		end > keep ? end - (extent->offset > keep ? extent->offset : keep) : 0;
	return reclaim;
}

const struct pool_params *pools_params(const struct pools *, unsigned)
{
	static const struct pool_params params;

	return &params;
}

void pools_set_endpoints(struct pools *, unsigned, unsigned)
{
}

void pools_set_extent_max(struct pools *pools, uint64_t bytes)
{
	(void)pools;
	(void)bytes;
}

void pools_hurry(struct pools *pools, bool hurry)
{
	(void)pools;
	hurried = hurry;
}

void fake_pools_break(unsigned page)
{
	break_page = page;
}

const struct fake_wish *fake_pools_wish(void)
{
	return &wish;
}

bool fake_pools_hurried(void)
{
	return hurried;
}

void fake_pools_cut(bool possible)
{
	can_shorten = possible;
}

uint64_t pools_free_tail(struct pools *pools, struct extent *extent, uint64_t keep)
{
	uint64_t whole = (keep + FAKE_PAGE - 1) / FAKE_PAGE * FAKE_PAGE;
	struct extent rest = *extent;

	ck_assert_uint_gt(keep, 0);
	if (!can_shorten || whole >= extent->bytes)
		return 0;
	rest.offset += whole;
	rest.bytes -= whole;
	extent->bytes = whole;
	pools_free(pools, rest);
	return rest.bytes;
}

void *extent_addr(const struct extent *extent)
{
	return memory + extent->offset;
}

static int extent_node(const struct extent *extent)
{
	return extent->offset >= (uint64_t)FAKE_NODE_PAGES * FAKE_PAGE;
}

/* For each node: the endpoints, and the bytes being released. */
static unsigned lent_through[2];
static uint64_t releasing[2];

void extent_set_releasing(const struct extent *extent, bool is_releasing)
{
	if (is_releasing)
		releasing[extent_node(extent)] += extent->bytes;
	else
		releasing[extent_node(extent)] -= extent->bytes;
}

void extent_set_owner(const struct extent *, const char *)
{
}

struct extent_pool extent_pool(const struct extent *extent)
{
	int node = extent_node(extent);

	return (struct extent_pool){ .name = node ? "far" : "near",
				     .id = 1,
				     .node = node,
				     .page_bytes = FAKE_PAGE,
				     .endpoints = lent_through[node] };
}

void fake_pools_lend_through(unsigned near, unsigned far)
{
	lent_through[0] = near;
	lent_through[1] = far;
}

/* A pool of each node. */
unsigned pools_count(const struct pools *pools)
{
	(void)pools;
	return 2;
}

struct pool_status pools_status(const struct pools *pools, unsigned i)
{
	unsigned first = i ? FAKE_NODE_PAGES : 0,
		 end = i ? FAKE_PAGES : FAKE_NODE_PAGES;

	(void)pools;
	return (struct pool_status){
		.name = i ? "far" : "near",
		.page_bytes = FAKE_PAGE,
		.bytes = (uint64_t)(end - first) * FAKE_PAGE,
		.lent = (uint64_t)count_range(LENT, first, end) * FAKE_PAGE,
		.scrubbing = (uint64_t)count_range(DIRTY, first, end) * FAKE_PAGE,
		.free = (uint64_t)count_range(FREE, first, end) * FAKE_PAGE,
		.releasing = releasing[i],
		.endpoints = lent_through[i],
		.resizing = reclaimed.bytes ? POOL_RECLAIMS : POOL_RESTS,
	};
}

/* ---- under the control core ---- */

struct pools *control_pools_open(void)
{
	fake_pools_reset(0);
	return NULL;
}

struct pools *control_pools_open_again(void)
{
	fake_pools_crash();
	return NULL;
}

void control_pools_restored(void)
{
	fake_pools_scrub();
}

void control_pools_close(void)
{
}

void control_pools_scrub(void)
{
	fake_pools_scrub();
}

void control_pools_check(const struct leases *leases)
{
	fake_pools_check(leases);
}
