/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory in stripes over several nodes, on preferred nodes, and in pieces that devices register.  A
 * fake of move_pages() tells the nodes of the pages. */
#include <errno.h>
#include <inttypes.h>
#include <numaif.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "rmemd/pool/host.h"
#include "rmemd/pool/memory.h"
#include "rmemd/pool/stripes.h"
#include "unit/rmemd/pool/pools-case.h"

#define GIB (KIB * MIB)
#define PAGE (4 * KIB)
#define POOLS_MAX 4

/* ---- stripes_plan() ---- */

static const struct {
	uint64_t bytes, align;
	unsigned n_nodes, max;
	unsigned n;           /* stripes */
	uint64_t first, last; /* their lengths */
} cases[] = {
	/* sixteen, of a huge page at least */
	{ 64 * MIB, PAGE, 2, 64, 16, 4 * MIB, 4 * MIB },
	{ 32 * MIB, PAGE, 2, 64, 16, 2 * MIB, 2 * MIB },
	{ 30 * MIB, PAGE, 2, 64, 14, 549 * PAGE, 548 * PAGE },
	{ 33 * MIB, PAGE, 2, 64, 16, 4 * MIB, MIB },
	{ 64 * GIB, PAGE, 2, 64, 16, 4 * GIB, 4 * GIB },
	/* an equal number for each node */
	{ 90 * MIB, PAGE, 3, 64, 15, 6 * MIB, 6 * MIB },
	{ 64 * MIB, PAGE, 20, 64, 20, 820 * PAGE, 819 * PAGE },
	/* small memory: one stripe for each node, in whole pages */
	{ 3 * MIB, PAGE, 2, 64, 2, 1536 * KIB, 1536 * KIB },
	{ 3 * PAGE, PAGE, 2, 64, 2, 2 * PAGE, PAGE },
	{ 2 * PAGE, PAGE, 3, 64, 2, PAGE, PAGE },
	/* all but the last are multiples of the alignment */
	{ 10 * GIB, GIB, 2, 64, 10, GIB, GIB },
	{ GIB, GIB, 2, 64, 1, GIB, GIB },
	/* a growing lease may have fewer segments */
	{ 64 * MIB, PAGE, 2, 30, 6, 12 * MIB, 10 * MIB },
	{ 64 * MIB, PAGE, 2, 7, 2, 32 * MIB, 32 * MIB },
	{ 64 * MIB, PAGE, 2, 2, 2, 32 * MIB, 32 * MIB },
	/* too few extents, or one node only */
	{ 64 * MIB, PAGE, 3, 2, 0, 0, 0 },
	{ 64 * MIB, PAGE, 1, 64, 0, 0, 0 },
	{ 64 * MIB, PAGE, 0, 64, 0, 0, 0 },
	{ PAGE, PAGE, 2, 64, 1, PAGE, PAGE },
};

START_TEST(stripes__are_nearly_equal)
{
	uint64_t sum = 0, of_node[64] = { 0 }, least = UINT64_MAX, most = 0;
	unsigned n_nodes = cases[_i].n_nodes;
	struct stripes stripes;

	stripes_plan(cases[_i].bytes, cases[_i].align, n_nodes, cases[_i].max,
		     &stripes);
	ck_assert_uint_eq(stripes.n, cases[_i].n);
	if (stripes.n < 2)
		return;
	ck_assert_uint_eq(stripes_bytes(&stripes, 0), cases[_i].first);
	ck_assert_uint_eq(stripes_bytes(&stripes, stripes.n - 1), cases[_i].last);
	for (unsigned i = 0; i < stripes.n; i++) {
		uint64_t bytes = stripes_bytes(&stripes, i);

		ck_assert_uint_gt(bytes, 0);
		if (i + 1 < stripes.n)
			ck_assert_uint_eq(bytes % cases[_i].align, 0);
		of_node[i % n_nodes] += bytes;
		sum += bytes;
	}
	ck_assert_uint_eq(sum, cases[_i].bytes);
	for (unsigned i = 0; i < n_nodes && i < stripes.n; i++) {
		least = of_node[i] < least ? of_node[i] : least;
		most = of_node[i] > most ? of_node[i] : most;
	}
	ck_assert_uint_le(most - least, 2 * stripes.unit_bytes);
}
END_TEST

/* ---- pools ---- */

/* The nodes of the pools in their order, and the number of them that were reported. */
static const int *page_nodes;
static unsigned n_reported;

/* Replaces that of libnuma: all pages of a pool are on its node. */
long move_pages(int pid, unsigned long count, void **pages, const int *nodes,
		int *status, int flags)
{
	(void)pages;
	ck_assert_int_eq(pid, 0);
	ck_assert_ptr_null(nodes);
	ck_assert_int_eq(flags, 0);
	for (unsigned long i = 0; i < count; i++)
		status[i] = page_nodes[n_reported];
	n_reported++;
	return 0;
}

/* Open pools of these sizes on these nodes. */
static void open_on(unsigned n, const int *nodes, const uint64_t *bytes)
{
	struct pool_params params[POOLS_MAX] = {
		POOL("a", POOL_NODE_ANY, 0, POOL_PAGES_BASE),
		POOL("b", POOL_NODE_ANY, 0, POOL_PAGES_BASE),
		POOL("c", POOL_NODE_ANY, 0, POOL_PAGES_BASE),
		POOL("d", POOL_NODE_ANY, 0, POOL_PAGES_BASE),
	};

	close_pools();
	for (unsigned i = 0; i < n; i++)
		params[i].bytes = bytes[i];
	page_nodes = nodes;
	n_reported = 0;
	open_pools(params, n);
}

static int alloc_stripes(uint64_t bytes, unsigned max)
{
	const struct pool_request request = { .bytes = bytes,
					      .align = 1,
					      .interleave = true };

	return alloc_as(&request, max);
}

static uint64_t bytes_on(int node)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n_allocated; i++)
		if (extent_pool(&allocated[i]).node == node)
			sum += allocated[i].bytes;
	return sum;
}

static uint64_t free_in(unsigned pool)
{
	return pools_status(pools, pool).free;
}

START_TEST(stripes__alternate_between_nodes)
{
	/* node 1 has two pools */
	static const int nodes[] = { 1, 0, 1 };
	static const uint64_t bytes[] = { 2 * MIB, 4 * MIB, 2 * MIB };

	open_on(3, nodes, bytes);
	ck_assert_msg(alloc_stripes(8 * MIB - 5, 64) == 0, "%s", err_text());
	ck_assert_uint_eq(n_allocated, 4);
	for (unsigned i = 0; i < n_allocated; i++) {
		ck_assert_int_eq(extent_pool(&allocated[i]).node, i % 2 == 0);
		ck_assert_uint_eq(allocated[i].bytes, 2 * MIB);
	}
	ck_assert_uint_eq(bytes_on(0), 4 * MIB);
}
END_TEST

START_TEST(stripes__of_a_full_node_are_on_other_nodes)
{
	static const int nodes[] = { 0, 1 };
	static const uint64_t bytes[] = { 6 * MIB, 2 * MIB };

	open_on(2, nodes, bytes);
	ck_assert_msg(alloc_stripes(6 * MIB, 64) == 0, "%s", err_text());
	/* node 1 cannot hold its half */
	ck_assert_uint_eq(n_allocated, 2);
	ck_assert_uint_eq(bytes_on(1), 0);
	ck_assert_uint_eq(bytes_on(0), 6 * MIB);
	open_on(2, nodes, bytes);
	ck_assert_msg(alloc_stripes(8 * MIB, 64) == 0, "%s", err_text());
	ck_assert_uint_eq(n_allocated, 4);
	ck_assert_uint_eq(bytes_on(1), 2 * MIB);
	ck_assert_uint_eq(bytes_on(0), 6 * MIB);
}
END_TEST

/* If only one node has free memory, there are no stripes. */
START_TEST(stripes__need_two_nodes)
{
	static const int nodes[] = { 0, 1, 0 };
	static const uint64_t bytes[] = { 2 * MIB, MIB, 2 * MIB };

	open_on(3, nodes, bytes);
	ck_assert_int_eq(alloc_stripes(2 * MIB, 64), 0);
	ck_assert_uint_eq(n_allocated, 2);
	ck_assert_uint_eq(bytes_on(1), MIB);
	ck_assert_int_eq(alloc_stripes(MIB, 64), 0);
	ck_assert_uint_eq(n_allocated, 1);
}
END_TEST

START_TEST(alloc__without_room_for_stripes_uses_none)
{
	static const int nodes[] = { 0, 1 };
	static const uint64_t bytes[] = { 100 * PAGE, 100 * PAGE };

	open_on(2, nodes, bytes);
	/* no stripes in one extent */
	ck_assert_int_eq(alloc_stripes(80 * PAGE, 1), 0);
	ck_assert_uint_eq(n_allocated, 1);
	ck_assert_int_eq(alloc_stripes(101 * PAGE, 1), -ENOSPC);
	/* a failed request allocates nothing */
	ck_assert_int_eq(alloc_stripes(121 * PAGE, 64), -ENOSPC);
	ck_assert_uint_eq(free_in(0) + free_in(1), 120 * PAGE);
	open_on(2, nodes, bytes);
	/* a device registers 4 pages at once: 20 extents of each stripe */
	pools_set_extent_max(pools, 4 * PAGE);
	ck_assert_int_eq(alloc_stripes(154 * PAGE, 64), 0);
	ck_assert_uint_eq(n_allocated, 40);
	ck_assert_uint_eq(bytes_on(0), 77 * PAGE);
	open_on(2, nodes, bytes);
	pools_set_extent_max(pools, 4 * PAGE);
	/* this is one too many; without stripes there are fewer */
	ck_assert_msg(alloc_stripes(154 * PAGE, 39) == 0, "%s", err_text());
	ck_assert_uint_eq(n_allocated, 39);
	ck_assert_uint_eq(bytes_on(0) + bytes_on(1), 154 * PAGE);
	ck_assert_uint_eq(free_in(0) + free_in(1), 46 * PAGE);
}
END_TEST

START_TEST(alloc__prefers_several_nodes)
{
	static const int nodes[] = { 0, 1, 2, 3 }, preferred[] = { 3, 1 };
	static const uint64_t bytes[] = { 100 * PAGE, 40 * PAGE, 200 * PAGE,
					  50 * PAGE };
	/* the preferred node with more memory, the other one, both, then other nodes */
	static const int got[] = { 3, 1, 3, 2 };
	const struct pool_request request = {
		.bytes = 30 * PAGE, .align = 1, .nodes = preferred, .n_nodes = 2
	};

	open_on(4, nodes, bytes);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(alloc_as(&request, 4), 0);
		ck_assert_int_eq(extent_pool(&allocated[0]).node, got[i]);
		ck_assert_uint_eq(n_allocated, i == 2 ? 2 : 1);
	}
}
END_TEST

/* ---- devices that register little at once ---- */

static bool space_alone;

int __real_memory_open(const struct pool_params *params, struct memory_work *work,
		       struct memory *ret_memory);
int __wrap_memory_open(const struct pool_params *params, struct memory_work *work,
		       struct memory *ret_memory);

/* With space_alone: address space that nobody touches, as if it had pages of 2 MiB. */
int __wrap_memory_open(const struct pool_params *params, struct memory_work *work,
		       struct memory *ret_memory)
{
	struct memory memory = { .fd = -1,
				 .bytes = params->bytes,
				 .reserved = params->bytes,
				 .pages = POOL_PAGES_2M,
				 .page_bytes = 2 * MIB };

	if (!space_alone)
		return __real_memory_open(params, work, ret_memory);
	memory.addr = mmap(NULL, params->bytes, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(memory.addr, MAP_FAILED);
	*ret_memory = memory;
	return 0;
}

/* Each extent is registered by itself. */
START_TEST(alloc__from_a_pool_above_what_a_device_registers)
{
	static const int nodes[] = { 0 };
	static const uint64_t bytes[] = { 70 * GIB };
	uint64_t sum = 0;

	space_alone = true;
	open_on(1, nodes, bytes);
	pools_set_extent_max(pools, GIB);
	(void)alloc_one(PAGE);
	ck_assert_int_eq(alloc(5 * GIB / 2, 64), 0);
	ck_assert_uint_eq(n_allocated, 3);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(allocated[i].bytes, i < 2 ? GIB : GIB / 2);
		ck_assert_uint_eq(allocated[i].offset, 2 * MIB + sum);
		sum += allocated[i].bytes;
	}
	ck_assert_int_eq(alloc(65 * GIB, 64), -ENOSPC);
	ck_assert_str_eq(err_text(),
			 "no room for 65 GiB: an RDMA device here registers 1 GiB at "
			 "once, and a lease takes at most 64 pieces; ask for less");
	ck_assert_int_eq(alloc(64 * GIB, 64), 0);
	ck_assert_uint_eq(n_allocated, 64);
	close_pools();
	space_alone = false;
}
END_TEST

/* ---- pools for some endpoints ---- */

static int alloc_through(uint64_t bytes, unsigned endpoints, bool stripes)
{
	const struct pool_request request = { .bytes = bytes,
					      .align = 1,
					      .endpoints = endpoints,
					      .interleave = stripes };

	return alloc_as(&request, 8);
}

/* Three pools, each lent through an endpoint of its own. */
static void open_through(const int *nodes, const uint64_t *bytes)
{
	open_on(3, nodes, bytes);
	for (unsigned i = 0; i < 3; i++)
		pools_set_endpoints(pools, i, 1u << i);
}

START_TEST(alloc__uses_pools_of_the_endpoints_only)
{
	static const int nodes[] = { 0, 1, 0 };
	static const uint64_t bytes[] = { 100 * PAGE, 200 * PAGE, 40 * PAGE };

	open_through(nodes, bytes);
	ck_assert_int_eq(alloc_through(50 * PAGE, 1, false), 0);
	ck_assert_uint_eq(extent_pool(&allocated[0]).endpoints, 1);
	ck_assert_str_eq(extent_pool(&allocated[0]).name, "a");
	/* free or dirty memory of other pools is not used */
	ck_assert_int_eq(alloc_through(60 * PAGE, 1, false), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "200 KiB are free"));
	ck_assert_int_eq(alloc_through(200 * PAGE, 2, false), 0);
	pools_free(pools, allocated[0]);
	ck_assert_int_eq(alloc_through(60 * PAGE, 1, false), -ENOSPC);
	/* extents of two pools */
	ck_assert_int_eq(alloc_through(60 * PAGE, 5, false), 0);
	ck_assert_uint_eq(n_allocated, 2);
	ck_assert_int_eq(alloc_through(PAGE, 8, false), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "no pool is lent through"));
	ck_assert_int_eq(alloc_through(PAGE, 0, false), 0);
	/* pools that are lent through no endpoint are not used at all */
	for (unsigned i = 0; i < 3; i++)
		pools_set_endpoints(pools, i, 0);
	ck_assert_int_eq(alloc_through(PAGE, 0, false), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "no pool is lent through"));
	/* the rule holds for stripes, too */
	open_through(nodes, bytes);
	ck_assert_int_eq(alloc_through(80 * PAGE, 5, true), 0);
	ck_assert_uint_eq(bytes_on(1), 0);
	ck_assert_int_eq(alloc_through(80 * PAGE, 6, true), 0);
	ck_assert_uint_eq(bytes_on(1), 40 * PAGE);
}
END_TEST

/* ---- pools of some names ---- */

START_TEST(alloc__uses_pools_of_the_names_only)
{
	static const int nodes[] = { 0, 1, 0 };
	static const uint64_t bytes[] = { 100 * PAGE, 200 * PAGE, 40 * PAGE };
	struct pool_names only = { { "a", "c" }, 2 };
	struct pool_request request = { .bytes = 120 * PAGE,
					.align = 1,
					.only = &only };

	open_on(3, nodes, bytes);
	ck_assert_int_eq(alloc_as(&request, 8), 0);
	ck_assert_uint_eq(n_allocated, 2);
	ck_assert_str_eq(extent_pool(&allocated[0]).name, "a");
	ck_assert_str_eq(extent_pool(&allocated[1]).name, "c");
	/* free or dirty memory of other pools is not used */
	ck_assert(!pools_may_fit(pools, &request, 8));
	ck_assert_int_eq(alloc_as(&request, 8), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "80 KiB are free"));
	request.interleave = true;
	request.bytes = 20 * PAGE;
	ck_assert_int_eq(alloc_as(&request, 8), 0);
	ck_assert_uint_eq(bytes_on(1), 0);
	(void)strcpy(only.at[0], "x");
	(void)strcpy(only.at[1], "y");
	ck_assert_int_eq(alloc_as(&request, 8), -ENOSPC);
	ck_assert_str_eq(err_text(), "no pool with an allowed name is open");
	only.n = 0;
	ck_assert_int_eq(alloc_as(&request, 8), 0);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("stripes", NULL, NULL);

	tcase_add_loop_test(tc, stripes__are_nearly_equal, 0,
			    sizeof(cases) / sizeof(cases[0]));
	tc = unit_case("pools", NULL, pools_teardown);
	/* without NUMA move_pages() is not called */
	if (host_has_nodes()) {
		tcase_add_test(tc, stripes__alternate_between_nodes);
		tcase_add_test(tc, stripes__of_a_full_node_are_on_other_nodes);
		tcase_add_test(tc, alloc__without_room_for_stripes_uses_none);
		tcase_add_test(tc, stripes__need_two_nodes);
		tcase_add_test(tc, alloc__prefers_several_nodes);
		tcase_add_test(tc, alloc__uses_pools_of_the_endpoints_only);
		tcase_add_test(tc, alloc__uses_pools_of_the_names_only);
	}
	tcase_add_test(tc, alloc__from_a_pool_above_what_a_device_registers);
	return unit_main();
}
