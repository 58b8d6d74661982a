/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "rmemd/pool/extents.h"
#include "unit/unit.h"

#define GRAIN UINT64_C(4096)

static struct extents extents;

static struct block *take(uint64_t grains, uint64_t align)
{
	struct block *block = NULL;

	ck_assert_int_eq(extents_alloc(&extents, grains * GRAIN, align * GRAIN, &block),
			 0);
	ck_assert_uint_eq(block->bytes, grains * GRAIN);
	return block;
}

START_TEST(take__prefers_the_smallest_block_that_fits)
{
	struct block *a, *b, *c, *guard;

	ck_assert_int_eq(extents_init(&extents, 64 * GRAIN, GRAIN), 0);
	a = take(8, 1);
	guard = take(1, 1);
	b = take(4, 1);
	(void)take(1, 1);
	ck_assert_uint_eq(guard->offset, 8 * GRAIN);
	extents_free(&extents, a);
	extents_free(&extents, b);
	/* 8 free at 0, 4 at 9, the rest at 14: 3 come from the 4 */
	c = take(3, 1);
	ck_assert_uint_eq(c->offset, 9 * GRAIN);
	ck_assert_uint_eq(take(5, 1)->offset, 0);
	extents_destroy(&extents);
}
END_TEST

START_TEST(take__aligns_and_keeps_what_is_before_and_behind)
{
	struct block *block;

	ck_assert_int_eq(extents_init(&extents, 64 * GRAIN, GRAIN), 0);
	(void)take(1, 1);
	block = take(4, 16);
	ck_assert_uint_eq(block->offset, 16 * GRAIN);
	ck_assert_uint_eq(extents.free, (64 - 5) * GRAIN);
	/* the 15 before it are still there as one */
	ck_assert_uint_eq(take(15, 1)->offset, GRAIN);
	ck_assert_uint_eq(extents_largest(&extents, GRAIN), 44 * GRAIN);
	/* of [20, 64) the aligned part begins at 32 */
	ck_assert_uint_eq(extents_largest(&extents, 32 * GRAIN), 32 * GRAIN);
	extents_destroy(&extents);
}
END_TEST

/* Many blocks that are large enough but not once aligned: only one, larger, will do. */
START_TEST(take__finds_the_only_block_that_fits_once_aligned)
{
	enum { N = 64 };
	struct block *blocks[N], *block;

	ck_assert_int_eq(extents_init(&extents, 4096 * GRAIN, GRAIN), 0);
	(void)take(1, 1);
	for (int i = 0; i < N; i++) {
		blocks[i] =
			take(16, 1); /* at 1 + 17 i: never a multiple of 16 but for */
		(void)take(1, 1);    /* i = 15, 31, ... */
	}
	/* use up the rest */
	ck_assert_int_eq(extents_alloc_most(&extents, UINT64_MAX, GRAIN, &block), 0);
	ck_assert_uint_eq(extents.free, 0);
	for (int i = 0; i < N; i++)
		if (i % 16 != 15)
			extents_free(&extents, blocks[i]);
	ck_assert_int_eq(extents_alloc(&extents, 16 * GRAIN, 16 * GRAIN, &block),
			 -ENOSPC);
	extents_free(&extents, blocks[47]);
	ck_assert_int_eq(extents_alloc(&extents, 16 * GRAIN, 16 * GRAIN, &block), 0);
	ck_assert_ptr_eq(block, blocks[47]);
	extents_destroy(&extents);
}
END_TEST

START_TEST(claim__takes_what_is_asked_for_in_order)
{
	struct block *block;

	ck_assert_int_eq(extents_init(&extents, 64 * GRAIN, GRAIN), 0);
	ck_assert_int_eq(extents_claim(&extents, 0, 3 * GRAIN, &block), 0);
	ck_assert_int_eq(extents_claim(&extents, 3 * GRAIN, GRAIN, &block), 0);
	ck_assert_int_eq(extents_claim(&extents, 10 * GRAIN, 4 * GRAIN, &block), 0);
	ck_assert_uint_eq(block->offset, 10 * GRAIN);
	ck_assert_uint_eq(block->bytes, 4 * GRAIN);
	ck_assert_ptr_eq(extents_find(&extents, 10 * GRAIN), block);
	/* taken, in front of others, in no grain, of nothing, beyond the end */
	ck_assert_int_eq(extents_claim(&extents, 13 * GRAIN, GRAIN, &block), -EINVAL);
	ck_assert_int_eq(extents_claim(&extents, 5 * GRAIN, GRAIN, &block), -EINVAL);
	ck_assert_int_eq(extents_claim(&extents, 20 * GRAIN + 1, GRAIN, &block),
			 -EINVAL);
	ck_assert_int_eq(extents_claim(&extents, 20 * GRAIN, 0, &block), -EINVAL);
	ck_assert_int_eq(extents_claim(&extents, 62 * GRAIN, 3 * GRAIN, &block),
			 -EINVAL);
	ck_assert_int_eq(extents_claim(&extents, 64 * GRAIN, GRAIN, &block), -EINVAL);
	ck_assert_int_eq(
		extents_claim(&extents, UINT64_MAX / GRAIN * GRAIN, 2 * GRAIN, &block),
		-EINVAL);
	ck_assert_int_eq(extents_claim(&extents, 63 * GRAIN, GRAIN, &block), 0);
	ck_assert_int_eq(extents_claim(&extents, 63 * GRAIN, GRAIN, &block), -EINVAL);
	ck_assert_uint_eq(extents.lent, 9 * GRAIN);
	/* what lies between can be had */
	ck_assert_uint_eq(extents_largest(&extents, GRAIN), 49 * GRAIN);
	ck_assert_uint_eq(take(49, 1)->offset, 14 * GRAIN);
	ck_assert_uint_eq(take(6, 1)->offset, 4 * GRAIN);
	ck_assert_uint_eq(extents.free, 0);
	extents_destroy(&extents);
}
END_TEST

START_TEST(soil__is_neither_free_nor_lent)
{
	struct block *a, *none = NULL;

	ck_assert_int_eq(extents_init(&extents, 8 * GRAIN, GRAIN), 0);
	a = take(8, 1);
	ck_assert_ptr_eq(extents_find(&extents, 0), a);
	extents_soil(&extents, a);
	ck_assert_ptr_null(extents_find(&extents, 0));
	ck_assert_uint_eq(extents.lent, 0);
	ck_assert_uint_eq(extents.dirty, 8 * GRAIN);
	ck_assert_int_eq(extents_alloc(&extents, GRAIN, GRAIN, &none), -ENOSPC);
	ck_assert_ptr_null(none);
	extents_free(&extents, a);
	ck_assert_uint_eq(extents.free, 8 * GRAIN);
	ck_assert_int_eq(extents_alloc(&extents, 9 * GRAIN, GRAIN, &none), -ENOSPC);
	extents_destroy(&extents);
}
END_TEST

/* ---- random operations against a map with a letter for each grain ---- */

enum { GRAINS = 512, LENT_MAX = 200, STEPS = 10000 };

static uint64_t seed, state;

static uint64_t draw(uint64_t below)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (state >> 33) % below;
}

/* Check writes to a pipe at every assertion, which millions of them cannot afford. */
#define REQUIRE(condition)                                       \
	do {                                                     \
		if (!(condition))                                \
			ck_abort_msg("%s is false", #condition); \
	} while (0)

/* Free, lent, dirty; closed and clean, closed and unclean. */
static char model[GRAINS];
static unsigned size, end; /* grains; from `end` on it is closed */
static struct block *held[LENT_MAX], *dirty[LENT_MAX];
static unsigned n_held, n_dirty, n_unclean;

static void model_set(const struct block *block, char from, char to)
{
	for (uint64_t i = block->offset / GRAIN;
	     i < (block->offset + block->bytes) / GRAIN; i++) {
		ck_assert_msg(model[i] == from, "grain %" PRIu64 " is '%c', not '%c'",
			      i, model[i], from);
		model[i] = to;
	}
}

/* The smallest run of free grains that has an aligned part of n, 0: none. */
static unsigned model_best(unsigned n, unsigned align)
{
	unsigned best = 0;

	for (unsigned i = 0; i < size;) {
		unsigned begin = i, aligned;

		while (i < size && model[i] == 'f')
			i++;
		aligned = (begin + align - 1) / align * align;
		if (aligned + n <= i && i > begin && (best == 0 || i - begin < best))
			best = i - begin;
		if (i == begin)
			i++;
	}
	return best;
}

static void check_runs(void *ctx, uint64_t offset, uint64_t bytes)
{
	unsigned *grains = ctx, begin = (unsigned)(offset / GRAIN);
	unsigned behind = begin + (unsigned)(bytes / GRAIN);

	REQUIRE(behind <= end);
	for (unsigned i = begin; i < behind; i++)
		REQUIRE(model[i] == 'f' || model[i] == 'd');
	/* nothing free or dirty is next to it */
	REQUIRE(begin == 0 || model[begin - 1] == 'l');
	REQUIRE(behind == end || model[behind] == 'l');
	*grains += behind - begin;
}

/* Blocks tile the range, agree with the model, and no two free ones touch. */
static void check_all(void)
{
	static const char letter[] = { [BLOCK_FREE] = 'f',
				       [BLOCK_LENT] = 'l',
				       [BLOCK_DIRTY] = 'd',
				       [BLOCK_CLOSED] = 'c' };
	uint64_t at = 0, bytes[4] = { 0 };
	unsigned grains = 0, not_lent = 0;
	bool free_before = false;

	list_for_each(node, &extents.order) {
		const struct block *block = container_of(node, struct block, order);

		REQUIRE(block->offset == at);
		REQUIRE(block->bytes > 0);
		REQUIRE(!(free_before && block->state == BLOCK_FREE));
		free_before = block->state == BLOCK_FREE;
		for (uint64_t i = 0; i < block->bytes / GRAIN; i++)
			REQUIRE(model[at / GRAIN + i] ==
				(block->unclean ? 'u' : letter[block->state]));
		bytes[block->state] += block->bytes;
		at += block->bytes;
	}
	REQUIRE(at == size * GRAIN && extents.bytes == at);
	REQUIRE(bytes[BLOCK_FREE] == extents.free);
	REQUIRE(bytes[BLOCK_LENT] == extents.lent);
	REQUIRE(bytes[BLOCK_DIRTY] == extents.dirty);
	REQUIRE(bytes[BLOCK_CLOSED] == extents.closed);
	REQUIRE(extents_cleared(&extents) ==
		(bytes[BLOCK_CLOSED] == (size - end) * GRAIN));
	extents_each_run(&extents, check_runs, &grains);
	for (unsigned i = 0; i < end; i++)
		not_lent += model[i] != 'l';
	REQUIRE(grains == not_lent);
}

static void step_take(void)
{
	unsigned n = 1 + (unsigned)draw(draw(4) ? 8 : 100), align = 1u << draw(5);
	unsigned best = model_best(n, align);
	struct block *block = NULL;
	int err;

	if (n_held == LENT_MAX)
		return;
	err = extents_alloc(&extents, n * GRAIN, align * GRAIN, &block);
	ck_assert_int_eq(err, best ? 0 : -ENOSPC);
	if (err)
		return;
	ck_assert_uint_eq(block->bytes, n * GRAIN);
	ck_assert_uint_eq(block->offset % (align * GRAIN), 0);
	if (align == 1) {
		/* best fit: the run it came from was the smallest that would do */
		unsigned begin = (unsigned)(block->offset / GRAIN), behind = begin;

		while (begin > 0 && model[begin - 1] == 'f')
			begin--;
		while (behind < size && model[behind] == 'f')
			behind++;
		ck_assert_uint_eq(behind - begin, best);
	}
	model_set(block, 'f', 'l');
	held[n_held++] = block;
}

static void step_take_most(void)
{
	uint64_t align = UINT64_C(1) << draw(5), most = 0;
	struct block *block;
	int err;

	if (n_held == LENT_MAX)
		return;
	for (unsigned n = size; n > 0 && !most; n--)
		most = model_best(n, (unsigned)align) ? n : 0;
	ck_assert_uint_eq(extents_largest(&extents, align * GRAIN), most * GRAIN);
	err = extents_alloc_most(&extents, 40 * GRAIN, align * GRAIN, &block);
	ck_assert_int_eq(err, most ? 0 : -ENOSPC);
	if (err)
		return;
	ck_assert_uint_eq(block->bytes, (most < 40 ? most : 40) * GRAIN);
	model_set(block, 'f', 'l');
	held[n_held++] = block;
}

/* A block is free again, as far as it is not closed. */
static void model_free(const struct block *block, char from)
{
	for (uint64_t i = block->offset / GRAIN;
	     i < (block->offset + block->bytes) / GRAIN; i++) {
		ck_assert_int_eq(model[i], from);
		model[i] = i < end ? 'f' : 'c';
	}
}

static void step_give(void)
{
	unsigned i;

	if (n_held == 0 || n_dirty + n_unclean == LENT_MAX)
		return;
	i = (unsigned)draw(n_held);
	ck_assert_ptr_eq(extents_find(&extents, held[i]->offset), held[i]);
	if (held[i]->offset >= end * GRAIN && draw(2)) {
		model_set(held[i], 'l', 'u');
		n_unclean++;
		extents_drop(&extents, held[i]);
	} else if (draw(3)) {
		model_set(held[i], 'l', 'd');
		dirty[n_dirty++] = held[i];
		extents_soil(&extents, held[i]);
	} else {
		model_free(held[i], 'l');
		extents_free(&extents, held[i]);
	}
	held[i] = held[--n_held];
}

static void step_split(void)
{
	struct block *block, *rest = NULL;
	uint64_t bytes, keep;

	if (n_held == 0 || n_held == LENT_MAX)
		return;
	block = held[draw(n_held)];
	bytes = block->bytes;
	if (bytes == GRAIN)
		return;
	keep = (1 + draw(bytes / GRAIN - 1)) * GRAIN;
	ck_assert_int_eq(extents_split(&extents, block, keep, &rest), 0);
	ck_assert_uint_eq(block->bytes, keep);
	ck_assert_uint_eq(rest->bytes, bytes - keep);
	ck_assert_uint_eq(rest->offset, block->offset + keep);
	held[n_held++] = rest;
}

static void step_clean(void)
{
	unsigned i;

	if (n_dirty == 0)
		return;
	i = (unsigned)draw(n_dirty);
	model_free(dirty[i], 'd');
	extents_free(&extents, dirty[i]);
	dirty[i] = dirty[--n_dirty];
}

static void model_turn(char from, char to)
{
	for (unsigned i = end; i < size; i++)
		if (model[i] == from)
			model[i] = to;
}

static void step_close(void)
{
	if (end < size || size == 1)
		return;
	end = 1 + (unsigned)draw(size - 1);
	ck_assert_int_eq(extents_close(&extents, end * GRAIN), 0);
	model_turn('f', 'c');
}

static void on_soiled(void *ctx, struct block *block)
{
	ck_assert_ptr_eq(ctx, &extents);
	ck_assert_int_eq(block->state, BLOCK_DIRTY);
	n_unclean--;
	dirty[n_dirty++] = block;
}

static void step_reopen(void)
{
	if (end == size)
		return;
	extents_reopen(&extents, on_soiled, &extents);
	ck_assert_uint_eq(n_unclean, 0);
	model_turn('c', 'f');
	model_turn('u', 'd');
	end = size;
}

static void step_cut(void)
{
	if (end == size || !extents_cleared(&extents))
		return;
	extents_cut(&extents);
	n_unclean = 0;
	size = end;
}

static void step_grow(void)
{
	if (end < size || size == GRAINS)
		return;
	memset(&model[size], 'f', GRAINS - size);
	size += 1 + (unsigned)draw(GRAINS - size);
	end = size;
	ck_assert_int_eq(extents_grow_reserve(&extents), 0);
	extents_grow(&extents, size * GRAIN);
}

/* Sooner or later what is closed is back. */
static void step_resize(void)
{
	static void (*const steps[])(void) = { step_close, step_reopen, step_grow };

	if (end < size && extents_cleared(&extents) && draw(2))
		step_cut();
	else
		steps[draw(3)]();
}

START_TEST(random__agrees_with_a_naive_model)
{
	const char *given = getenv("RMEM_TEST_SEED");

	seed = given ? strtoull(given, NULL, 0) : random_u64();
	state = seed;
	printf("# RMEM_TEST_SEED=%" PRIu64 "\n", seed);
	(void)fflush(stdout);
	memset(model, 'f', sizeof(model));
	size = end = GRAINS;
	ck_assert_int_eq(extents_init(&extents, GRAINS * GRAIN, GRAIN), 0);
	for (unsigned i = 0; i < STEPS; i++) {
		switch (draw(9)) {
		case 0:
		case 1:
		case 2:
			step_take();
			break;
		case 3:
			step_take_most();
			break;
		case 4:
		case 5:
			step_give();
			break;
		case 6:
			step_split();
			break;
		default:
			step_clean();
		}
		check_all();
		if (draw(25) == 0) {
			step_resize();
			check_all();
		}
	}
	step_reopen();
	while (n_held > 0)
		step_give();
	while (n_dirty > 0) {
		step_clean();
		check_all();
	}
	/* everything has come together again */
	ck_assert_uint_eq(extents_largest(&extents, GRAIN), size * GRAIN);
	extents_destroy(&extents);
}
END_TEST

START_TEST(close__waits_for_what_reaches_over_the_end)
{
	struct block *low, *across, *high, *block;

	ck_assert_int_eq(extents_init(&extents, 64 * GRAIN, GRAIN), 0);
	low = take(20, 1);
	across = take(20, 1);
	high = take(8, 1);
	ck_assert_int_eq(extents_close(&extents, 32 * GRAIN), 0);
	/* 16 were free behind it */
	ck_assert_uint_eq(extents.free, 0);
	ck_assert_uint_eq(extents.closed, 16 * GRAIN);
	ck_assert_int_eq(extents_alloc(&extents, GRAIN, GRAIN, &block), -ENOSPC);
	extents_drop(&extents, high);
	extents_soil(&extents, across);
	ck_assert(!extents_cleared(&extents));
	extents_free(&extents, across);
	ck_assert(extents_cleared(&extents));
	ck_assert_uint_eq(extents.free, 12 * GRAIN);
	extents_cut(&extents);
	ck_assert_uint_eq(extents.bytes, 32 * GRAIN);
	ck_assert_uint_eq(take(12, 1)->offset, 20 * GRAIN);
	extents_free(&extents, low);
	/* what is added joins what is free at the end, but nothing was */
	ck_assert_int_eq(extents_grow_reserve(&extents), 0);
	extents_grow(&extents, 64 * GRAIN);
	ck_assert_uint_eq(extents_largest(&extents, GRAIN), 32 * GRAIN);
	ck_assert_uint_eq(take(32, 1)->offset, 32 * GRAIN);
	extents_destroy(&extents);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("extents");
	TCase *tc = tcase_create("extents");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, take__prefers_the_smallest_block_that_fits);
	tcase_add_test(tc, take__aligns_and_keeps_what_is_before_and_behind);
	tcase_add_test(tc, take__finds_the_only_block_that_fits_once_aligned);
	tcase_add_test(tc, claim__takes_what_is_asked_for_in_order);
	tcase_add_test(tc, soil__is_neither_free_nor_lent);
	tcase_add_test(tc, close__waits_for_what_reaches_over_the_end);
	tcase_add_test(tc, random__agrees_with_a_naive_model);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
