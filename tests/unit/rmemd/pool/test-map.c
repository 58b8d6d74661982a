/* SPDX-License-Identifier: BSD-3-Clause */
/* The map of a pool: cells with the sums of what is in them, made in steps. */
#include <limits.h>
#include <stdio.h>

#include "rmemd/pool/map.h"
#include "unit/rmemd/pool/pools-case.h"

static struct pool_map map;

static void teardown(void)
{
	pool_map_end(&map);
	pools_teardown();
}

static const struct pool_map_cell *next(void)
{
	unsigned left = UINT_MAX;
	const struct pool_map_cell *cell = pool_map_next(&map, &left);

	ck_assert_uint_gt(left, 0);
	if (cell)
		ck_assert_uint_eq(cell->bytes, cell->free + cell->lent +
						       cell->scrubbing + cell->closed);
	return cell;
}

static struct extent lend(uint64_t bytes, const char *owner)
{
	struct extent extent = alloc_one(bytes);

	extent_set_owner(&extent, owner);
	return extent;
}

START_TEST(map__has_a_limited_number_of_cells)
{
	static const uint64_t sizes[] = { 4 * KIB, 256 * 4 * KIB, 257 * 4 * KIB,
					  1000 * 4 * KIB };
	static const unsigned cells[] = { 1, 256, 129, 250 };
	uint64_t bytes = 0;
	unsigned n = 0;

	open_one(sizes[_i]);
	pool_map_begin(pools, 0, &map);
	for (const struct pool_map_cell *cell; (cell = next()); n++) {
		ck_assert_uint_eq(cell->offset, bytes);
		ck_assert_uint_eq(cell->free, cell->bytes);
		bytes += cell->bytes;
	}
	ck_assert_uint_eq(n, cells[_i]);
	ck_assert_uint_eq(bytes, sizes[_i]);
	ck_assert_ptr_null(next());
}
END_TEST

START_TEST(cell__has_sums_by_owner)
{
	const struct pool_map_cell *cell;
	struct extent freed;

	open_one(256 * 64 * KIB);
	(void)lend(8 * KIB, "red");
	(void)lend(16 * KIB, "blue");
	(void)lend(4 * KIB, "red");
	freed = lend(12 * KIB, "red");
	(void)alloc_one(4 * KIB);
	pools_free(pools, freed);
	pool_map_begin(pools, 0, &map);
	cell = next();
	ck_assert_ptr_nonnull(cell);
	ck_assert_uint_eq(cell->bytes, 64 * KIB);
	ck_assert_uint_eq(cell->lent, 32 * KIB);
	ck_assert_uint_eq(cell->scrubbing, 12 * KIB);
	ck_assert_uint_eq(cell->free, 20 * KIB);
	ck_assert_uint_eq(cell->n_owners, 2);
	ck_assert_str_eq(cell->owners[0].name, "red");
	ck_assert_uint_eq(cell->owners[0].bytes, 12 * KIB);
	ck_assert_str_eq(cell->owners[1].name, "blue");
	ck_assert_uint_eq(cell->owners[1].bytes, 16 * KIB);
	cell = next();
	ck_assert_ptr_nonnull(cell);
	ck_assert_uint_eq(cell->n_owners, 0);
	ck_assert_uint_eq(cell->free, 64 * KIB);
}
END_TEST

START_TEST(cell__names_a_limited_number_of_owners)
{
	const struct pool_map_cell *cell;
	char names[POOL_MAP_OWNERS + 3][8];

	open_one(256 * 64 * KIB);
	for (unsigned i = 0; i < POOL_MAP_OWNERS + 3; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "t%u", i);
		(void)lend(4 * KIB, names[i]);
	}
	pool_map_begin(pools, 0, &map);
	cell = next();
	ck_assert_ptr_nonnull(cell);
	ck_assert_uint_eq(cell->n_owners, POOL_MAP_OWNERS);
	ck_assert_uint_eq(cell->lent, (POOL_MAP_OWNERS + 3) * 4 * KIB);
}
END_TEST

/* An extent of many cells, and a cell of many extents that takes many steps, while an owner that
 * was counted goes. */
START_TEST(map__goes_on_in_steps)
{
	const struct pool_map_cell *cell;
	char name[] = "red";
	unsigned left;

	open_one(256 * 256 * KIB);
	(void)lend(3 * 256 * KIB, "huge");
	for (unsigned i = 0; i < 50; i++)
		(void)lend(4 * KIB, i < 20 ? name : "blue");
	pool_map_begin(pools, 0, &map);
	for (unsigned i = 0; i < 3; i++) {
		cell = next();
		ck_assert_ptr_nonnull(cell);
		ck_assert_uint_eq(cell->owners[0].bytes, 256 * KIB);
	}
	left = 30;
	ck_assert_ptr_null(pool_map_next(&map, &left));
	ck_assert_uint_eq(left, 0);
	name[0] = 'x';
	left = 20;
	ck_assert_ptr_null(pool_map_next(&map, &left));
	cell = next();
	ck_assert_ptr_nonnull(cell);
	ck_assert_uint_eq(cell->offset, 3 * 256 * KIB);
	ck_assert_uint_eq(cell->n_owners, 2);
	ck_assert_str_eq(cell->owners[0].name, "red");
	ck_assert_uint_eq(cell->owners[0].bytes, 80 * KIB);
	ck_assert_uint_eq(cell->owners[1].bytes, 120 * KIB);
	ck_assert_uint_eq(cell->free, 56 * KIB);
}
END_TEST

START_TEST(map__outlasts_its_pool)
{
	open_one(MIB);
	pool_map_begin(pools, 0, &map);
	ck_assert_ptr_nonnull(next());
	close_pools();
	ck_assert_ptr_null(next());
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("map", NULL, teardown);

	tcase_add_loop_test(tc, map__has_a_limited_number_of_cells, 0, 4);
	tcase_add_test(tc, cell__has_sums_by_owner);
	tcase_add_test(tc, cell__names_a_limited_number_of_owners);
	tcase_add_test(tc, map__goes_on_in_steps);
	tcase_add_test(tc, map__outlasts_its_pool);
	return unit_main();
}
