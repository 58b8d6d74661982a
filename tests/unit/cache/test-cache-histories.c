/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients of a cache that are stopped, killed, and lose channels: every key is linearizable, no get
 * finds wrong bytes, and space is found again.
 *   RMEM_SEED             the first seed
 *   RMEM_CACHE_HISTORIES  of each case, default 1000
 *   RMEM_CACHE_STEPS      of a history, default 1500 */
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "unit/cache/simulation.h"
#include "unit/unit.h"

static uint64_t first_seed;

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

static void campaign(const char *name, struct mix mix)
{
	uint64_t histories = number_of("RMEM_CACHE_HISTORIES", 1000);
	struct totals totals = { 0 };
	const char *failure = NULL;

	/* a place that comes round is met seldom */
	if (mix.turns)
		histories *= 2;
	mix.steps = (unsigned)number_of("RMEM_CACHE_STEPS", 1500);
	for (uint64_t i = 0; i < histories && !failure; i++)
		failure = simulation_run(first_seed + i, &mix, &totals);
	(void)printf(
		"# %s: %llu histories from seed %llu: %llu steps, %llu hits, %llu "
		"misses, "
		"%llu stored, %llu refused, %llu deleted, %llu stops, %llu kills, %llu "
		"ends, "
		"%llu evictions, %llu moved, %llu seals, %llu torn, %llu damaged\n",
		name, (unsigned long long)totals.histories,
		(unsigned long long)first_seed, (unsigned long long)totals.steps,
		(unsigned long long)totals.hits, (unsigned long long)totals.misses,
		(unsigned long long)totals.stored, (unsigned long long)totals.refused,
		(unsigned long long)totals.deleted, (unsigned long long)totals.stops,
		(unsigned long long)totals.kills, (unsigned long long)totals.ends,
		(unsigned long long)totals.evictions, (unsigned long long)totals.moved,
		(unsigned long long)totals.seals, (unsigned long long)totals.torn,
		(unsigned long long)totals.damaged);
	if (failure)
		(void)printf("# %s\n", failure);
	(void)fflush(stdout);
	ck_assert_msg(!failure, "%s", failure);
	ck_assert_uint_gt(totals.hits, 0);
	ck_assert_uint_gt(totals.evictions, 0);
}

START_TEST(clients__are_linearizable)
{
	campaign("clients", (struct mix){ 0 });
}
END_TEST

START_TEST(values_that_never_change__are_whole)
{
	campaign("immutable", (struct mix){ .immutable = true });
}
END_TEST

START_TEST(one_key_and_lost_channels__are_linearizable)
{
	campaign("one key", (struct mix){ .one_key = true });
}
END_TEST

START_TEST(blocks__are_published_whole)
{
	campaign("quiet", (struct mix){ .quiet = true });
}
END_TEST

START_TEST(segments_used_again_and_again__bring_nothing_back)
{
	campaign("turns", (struct mix){ .turns = true });
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("histories", NULL, NULL);

	first_seed = number_of("RMEM_SEED", random_u64() % 1000000000);
	(void)printf("# RMEM_SEED=%llu\n", (unsigned long long)first_seed);
	tcase_set_timeout(tc, 0);
	tcase_add_test(tc, clients__are_linearizable);
	tcase_add_test(tc, values_that_never_change__are_whole);
	tcase_add_test(tc, one_key_and_lost_channels__are_linearizable);
	tcase_add_test(tc, blocks__are_published_whole);
	tcase_add_test(tc, segments_used_again_and_again__bring_nothing_back);
	return unit_main();
}
