/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory in stripes over several nodes, and on those that are preferred.  Where the pages are
 * is what the test says in the place of the kernel. */
#include <errno.h>
#include <inttypes.h>
#include <numaif.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/pool/host.h"
#include "rmemd/pool/pools.h"
#include "rmemd/pool/stripes.h"
#include "unit/unit.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)
#define PAGE (4 * KIB)
#define EXTENTS_MAX 64
#define POOLS_MAX 4

/* ---- lengths ---- */

static const struct {
	uint64_t bytes, align;
	unsigned n_nodes, max;
	unsigned n;           /* stripes */
	uint64_t first, last; /* their lengths */
} plans[] = {
	/* sixteen, as long as each of them is a huge page */
	{ 64 * MIB, PAGE, 2, 64, 16, 4 * MIB, 4 * MIB },
	{ 32 * MIB, PAGE, 2, 64, 16, 2 * MIB, 2 * MIB },
	{ 30 * MIB, PAGE, 2, 64, 14, 549 * PAGE, 548 * PAGE },
	{ 33 * MIB, PAGE, 2, 64, 16, 4 * MIB, MIB },
	{ 64 * GIB, PAGE, 2, 64, 16, 4 * GIB, 4 * GIB },
	/* the same number for each node */
	{ 90 * MIB, PAGE, 3, 64, 15, 6 * MIB, 6 * MIB },
	{ 64 * MIB, PAGE, 20, 64, 20, 820 * PAGE, 819 * PAGE },
	/* small ones are halved, as exactly as pages can be */
	{ 3 * MIB, PAGE, 2, 64, 2, 1536 * KIB, 1536 * KIB },
	{ 3 * PAGE, PAGE, 2, 64, 2, 2 * PAGE, PAGE },
	{ 2 * PAGE, PAGE, 3, 64, 2, PAGE, PAGE },
	/* all but the last are as the alignment wants them */
	{ 10 * GIB, GIB, 2, 64, 10, GIB, GIB },
	{ GIB, GIB, 2, 64, 1, GIB, GIB },
	/* a lease that grows keeps segments for later */
	{ 64 * MIB, PAGE, 2, 30, 6, 12 * MIB, 10 * MIB },
	{ 64 * MIB, PAGE, 2, 7, 2, 32 * MIB, 32 * MIB },
	{ 64 * MIB, PAGE, 2, 2, 2, 32 * MIB, 32 * MIB },
	/* no room for them, or nothing to take turns with */
	{ 64 * MIB, PAGE, 3, 2, 0, 0, 0 },
	{ 64 * MIB, PAGE, 1, 64, 0, 0, 0 },
	{ 64 * MIB, PAGE, 0, 64, 0, 0, 0 },
	{ PAGE, PAGE, 2, 64, 1, PAGE, PAGE },
};

START_TEST(stripes__are_as_equal_as_can_be)
{
	uint64_t sum = 0, of_node[64] = { 0 }, least = UINT64_MAX, most = 0;
	unsigned n_nodes = plans[_i].n_nodes;
	struct stripes stripes;

	stripes_plan(plans[_i].bytes, plans[_i].align, n_nodes, plans[_i].max,
		     &stripes);
	ck_assert_uint_eq(stripes.n, plans[_i].n);
	if (stripes.n < 2)
		return;
	ck_assert_uint_eq(stripes_bytes(&stripes, 0), plans[_i].first);
	ck_assert_uint_eq(stripes_bytes(&stripes, stripes.n - 1), plans[_i].last);
	for (unsigned i = 0; i < stripes.n; i++) {
		uint64_t bytes = stripes_bytes(&stripes, i);

		ck_assert_uint_gt(bytes, 0);
		if (i + 1 < stripes.n)
			ck_assert_uint_eq(bytes % plans[_i].align, 0);
		of_node[i % n_nodes] += bytes;
		sum += bytes;
	}
	ck_assert_uint_eq(sum, plans[_i].bytes);
	for (unsigned i = 0; i < n_nodes && i < stripes.n; i++) {
		least = of_node[i] < least ? of_node[i] : least;
		most = of_node[i] > most ? of_node[i] : most;
	}
	ck_assert_uint_le(most - least, 2 * stripes.unit_bytes);
}
END_TEST

/* ---- pools ---- */

static struct pools *pools;
static struct extent taken[EXTENTS_MAX];
static unsigned n_taken;
/* Nodes of the pools in their order, and how many were asked after. */
static const int *page_nodes;
static unsigned n_asked;

/* In the place of libnuma's: all pages of a pool are on its node. */
long move_pages(int pid, unsigned long count, void **pages, const int *nodes,
		int *status, int flags)
{
	(void)pages;
	ck_assert_int_eq(pid, 0);
	ck_assert_ptr_null(nodes);
	ck_assert_int_eq(flags, 0);
	for (unsigned long i = 0; i < count; i++)
		status[i] = page_nodes[n_asked];
	n_asked++;
	return 0;
}

static const char *const names[POOLS_MAX] = { "a", "b", "c", "d" };

/* Pools of so many bytes on these nodes. */
static void open_on(unsigned n, const int *nodes, const uint64_t *bytes)
{
	struct pool_params params[POOLS_MAX];

	memset(params, 0, sizeof(params));
	for (unsigned i = 0; i < n; i++) {
		memcpy(params[i].name, names[i], 2);
		params[i].node = POOL_NODE_ANY;
		params[i].bytes = bytes[i];
		params[i].pages = POOL_PAGES_BASE;
	}
	page_nodes = nodes;
	n_asked = 0;
	ck_assert_msg(pools_open(params, n, NULL, &pools) == 0, "%s", err_text());
}

static int interleaved(uint64_t bytes, unsigned max)
{
	const struct pool_request request = { .bytes = bytes,
					      .align = 1,
					      .interleave = true };

	return pools_alloc(pools, &request, taken, max, &n_taken);
}

static uint64_t bytes_on(int node)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n_taken; i++)
		if (extent_node(&taken[i]) == node)
			sum += taken[i].bytes;
	return sum;
}

static uint64_t free_in(unsigned pool)
{
	struct pool_status status;

	pools_status(pools, pool, &status);
	return status.free;
}

START_TEST(take__alternates_between_nodes)
{
	/* two pools on one of them */
	static const int nodes[] = { 1, 0, 1 };
	static const uint64_t bytes[] = { 2 * MIB, 4 * MIB, 2 * MIB };

	open_on(3, nodes, bytes);
	ck_assert_msg(interleaved(8 * MIB - 5, 64) == 0, "%s", err_text());
	ck_assert_uint_eq(n_taken, 4);
	for (unsigned i = 0; i < n_taken; i++) {
		ck_assert_int_eq(extent_node(&taken[i]), i % 2 == 0);
		ck_assert_uint_eq(taken[i].bytes, 2 * MIB);
	}
	ck_assert_uint_eq(bytes_on(0), 4 * MIB);
	pools_close(pools);
}
END_TEST

START_TEST(take__gives_what_a_node_lacks_elsewhere)
{
	static const int nodes[] = { 0, 1 };
	static const uint64_t bytes[] = { 6 * MIB, 2 * MIB };

	open_on(2, nodes, bytes);
	ck_assert_msg(interleaved(6 * MIB, 64) == 0, "%s", err_text());
	/* node 1 cannot hold its half */
	ck_assert_uint_eq(n_taken, 2);
	ck_assert_uint_eq(bytes_on(1), 0);
	ck_assert_uint_eq(bytes_on(0), 6 * MIB);
	pools_close(pools);
	open_on(2, nodes, bytes);
	ck_assert_msg(interleaved(8 * MIB, 64) == 0, "%s", err_text());
	ck_assert_uint_eq(n_taken, 4);
	ck_assert_uint_eq(bytes_on(1), 2 * MIB);
	ck_assert_uint_eq(bytes_on(0), 6 * MIB);
	pools_close(pools);
}
END_TEST

/* Where one node alone has anything it is as ever. */
START_TEST(take__needs_two_nodes_for_stripes)
{
	static const int nodes[] = { 0, 1, 0 };
	static const uint64_t bytes[] = { 2 * MIB, MIB, 2 * MIB };

	open_on(3, nodes, bytes);
	ck_assert_int_eq(interleaved(2 * MIB, 64), 0);
	ck_assert_uint_eq(n_taken, 2);
	ck_assert_uint_eq(bytes_on(1), MIB);
	ck_assert_int_eq(interleaved(MIB, 64), 0);
	ck_assert_uint_eq(n_taken, 1);
	pools_close(pools);
}
END_TEST

START_TEST(take__falls_back_where_stripes_do_not_fit)
{
	static const int nodes[] = { 0, 1 };
	static const uint64_t bytes[] = { 100 * PAGE, 100 * PAGE };

	open_on(2, nodes, bytes);
	/* no room for two pieces */
	ck_assert_int_eq(interleaved(80 * PAGE, 1), 0);
	ck_assert_uint_eq(n_taken, 1);
	ck_assert_int_eq(interleaved(101 * PAGE, 1), -ENOSPC);
	/* not enough for all of it, and everything is as it was */
	ck_assert_int_eq(interleaved(121 * PAGE, 64), -ENOSPC);
	ck_assert_uint_eq(free_in(0) + free_in(1), 120 * PAGE);
	pools_close(pools);
	open_on(2, nodes, bytes);
	/* of a device that registers 4 pages at once there are 20 of each half */
	pools_set_extent_max(pools, 4 * PAGE);
	ck_assert_int_eq(interleaved(154 * PAGE, 64), 0);
	ck_assert_uint_eq(n_taken, 40);
	ck_assert_uint_eq(bytes_on(0), 77 * PAGE);
	pools_close(pools);
	open_on(2, nodes, bytes);
	pools_set_extent_max(pools, 4 * PAGE);
	/* which is one too many, but in one piece after the other there is room */
	ck_assert_msg(interleaved(154 * PAGE, 39) == 0, "%s", err_text());
	ck_assert_uint_eq(n_taken, 39);
	ck_assert_uint_eq(bytes_on(0) + bytes_on(1), 154 * PAGE);
	ck_assert_uint_eq(free_in(0) + free_in(1), 46 * PAGE);
	pools_close(pools);
}
END_TEST

START_TEST(take__prefers_several_nodes)
{
	static const int nodes[] = { 0, 1, 2, 3 }, mine[] = { 3, 1 };
	static const uint64_t bytes[] = { 100 * PAGE, 40 * PAGE, 200 * PAGE,
					  50 * PAGE };
	/* the one of them that has more, the other one, both in pieces, then others */
	static const int got[] = { 3, 1, 3, 2 };
	const struct pool_request request = {
		.bytes = 30 * PAGE, .align = 1, .nodes = mine, .n_nodes = 2
	};

	open_on(4, nodes, bytes);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(pools_alloc(pools, &request, taken, 4, &n_taken), 0);
		ck_assert_int_eq(extent_node(&taken[0]), got[i]);
		ck_assert_uint_eq(n_taken, i == 2 ? 2 : 1);
	}
	pools_close(pools);
}
END_TEST

/* ---- pools for some endpoints ---- */

static int take_through(uint64_t bytes, unsigned endpoints, bool stripes)
{
	const struct pool_request request = { .bytes = bytes,
					      .align = 1,
					      .endpoints = endpoints,
					      .interleave = stripes };

	return pools_alloc(pools, &request, taken, 8, &n_taken);
}

START_TEST(take__is_of_pools_that_are_reached)
{
	static const int nodes[] = { 0, 1, 0 };
	static const uint64_t bytes[] = { 100 * PAGE, 200 * PAGE, 40 * PAGE };

	open_on(3, nodes, bytes);
	for (unsigned i = 0; i < 3; i++)
		pools_set_endpoints(pools, i, 1u << i);
	ck_assert_int_eq(take_through(50 * PAGE, 1, false), 0);
	ck_assert_uint_eq(extent_endpoints(&taken[0]), 1);
	ck_assert_str_eq(extent_pool(&taken[0]), "a");
	/* what others have does not help, nor that they have it soon */
	ck_assert_int_eq(take_through(60 * PAGE, 1, false), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "200 KiB are free"));
	ck_assert_int_eq(take_through(200 * PAGE, 2, false), 0);
	pools_free(pools, taken[0]);
	ck_assert_int_eq(take_through(60 * PAGE, 1, false), -ENOSPC);
	/* in pieces of two of them */
	ck_assert_int_eq(take_through(60 * PAGE, 5, false), 0);
	ck_assert_uint_eq(n_taken, 2);
	ck_assert_int_eq(take_through(PAGE, 8, false), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "no pool is lent through"));
	ck_assert_int_eq(take_through(PAGE, 0, false), 0);
	/* a client that has not said what it reaches does not reach memory lent through no device */
	for (unsigned i = 0; i < 3; i++)
		pools_set_endpoints(pools, i, 0);
	ck_assert_int_eq(take_through(PAGE, 0, false), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "no pool is lent through"));
	pools_close(pools);
	/* stripes, too */
	open_on(3, nodes, bytes);
	for (unsigned i = 0; i < 3; i++)
		pools_set_endpoints(pools, i, 1u << i);
	ck_assert_int_eq(take_through(80 * PAGE, 5, true), 0);
	ck_assert_uint_eq(bytes_on(1), 0);
	ck_assert_int_eq(take_through(80 * PAGE, 6, true), 0);
	ck_assert_uint_eq(bytes_on(1), 40 * PAGE);
	pools_close(pools);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("place");
	TCase *tc = tcase_create("stripes");

	tcase_add_loop_test(tc, stripes__are_as_equal_as_can_be, 0,
			    sizeof(plans) / sizeof(plans[0]));
	suite_add_tcase(suite, tc);
	tc = tcase_create("pools");
	/* without NUMA nobody is asked */
	if (host_has_nodes()) {
		tcase_add_test(tc, take__alternates_between_nodes);
		tcase_add_test(tc, take__gives_what_a_node_lacks_elsewhere);
		tcase_add_test(tc, take__falls_back_where_stripes_do_not_fit);
		tcase_add_test(tc, take__needs_two_nodes_for_stripes);
		tcase_add_test(tc, take__prefers_several_nodes);
		tcase_add_test(tc, take__is_of_pools_that_are_reached);
	}
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
