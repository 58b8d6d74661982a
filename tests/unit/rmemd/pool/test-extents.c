/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocation, claiming, closing and random operations on a range of bytes. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "rmemd/pool/extents.h"
#include "unit/borders.h"
#include "unit/unit.h"

#define GRAIN UINT64_C(4096)

static struct extents extents;

static void init(uint64_t grains)
{
	ck_assert_int_eq(extents_init(&extents, grains * GRAIN, GRAIN), 0);
}

static void teardown(void)
{
	extents_destroy(&extents);
}

static struct block *alloc(uint64_t grains, uint64_t align)
{
	struct block *block = NULL;

	ck_assert_int_eq(extents_alloc(&extents, grains * GRAIN, align * GRAIN, &block),
			 0);
	ck_assert_uint_eq(block->bytes, grains * GRAIN);
	return block;
}

START_TEST(alloc__prefers_the_smallest_block_that_fits)
{
	struct block *a, *b, *c, *guard;

	init(64);
	a = alloc(8, 1);
	guard = alloc(1, 1);
	b = alloc(4, 1);
	(void)alloc(1, 1);
	ck_assert_uint_eq(guard->offset, 8 * GRAIN);
	extents_free(&extents, a);
	extents_free(&extents, b);
	/* free: 8 at 0, 4 at 9, the rest at 14 */
	c = alloc(3, 1);
	ck_assert_uint_eq(c->offset, 9 * GRAIN);
	ck_assert_uint_eq(alloc(5, 1)->offset, 0);
}
END_TEST

START_TEST(alloc__aligns_and_keeps_the_rest_free)
{
	struct block *block;

	init(64);
	(void)alloc(1, 1);
	block = alloc(4, 16);
	ck_assert_uint_eq(block->offset, 16 * GRAIN);
	ck_assert_uint_eq(extents.sum[BLOCK_FREE], (64 - 5) * GRAIN);
	/* the 15 before it are one block */
	ck_assert_uint_eq(alloc(15, 1)->offset, GRAIN);
	ck_assert_uint_eq(extents_largest(&extents, GRAIN), 44 * GRAIN);
	/* of [20, 64) the aligned part begins at 32 */
	ck_assert_uint_eq(extents_largest(&extents, 32 * GRAIN), 32 * GRAIN);
}
END_TEST

/* Many free blocks are large enough, but only one is aligned. */
START_TEST(alloc__finds_the_only_block_that_is_aligned)
{
	enum { N = 64 };
	struct block *blocks[N], *block;

	init(4096);
	(void)alloc(1, 1);
	for (int i = 0; i < N; i++) {
		/* at 1 + 17 i: a multiple of 16 for i = 15, 31, ... */
		blocks[i] = alloc(16, 1);
		(void)alloc(1, 1);
	}
	ck_assert_int_eq(extents_alloc_most(&extents, UINT64_MAX, GRAIN, &block), 0);
	ck_assert_uint_eq(extents.sum[BLOCK_FREE], 0);
	for (int i = 0; i < N; i++)
		if (i % 16 != 15)
			extents_free(&extents, blocks[i]);
	ck_assert_int_eq(extents_alloc(&extents, 16 * GRAIN, 16 * GRAIN, &block),
			 -ENOSPC);
	extents_free(&extents, blocks[47]);
	ck_assert_int_eq(extents_alloc(&extents, 16 * GRAIN, 16 * GRAIN, &block), 0);
	ck_assert_ptr_eq(block, blocks[47]);
}
END_TEST

static struct block *claim(uint64_t offset, uint64_t bytes, int err)
{
	struct block *block = NULL;

	ck_assert_int_eq(extents_claim(&extents, offset, bytes, &block), err);
	return block;
}

static int claim_err(uint64_t offset, uint64_t bytes)
{
	struct block *block = NULL;
	int err = extents_claim(&extents, offset, bytes, &block);

	if (!err && (block->offset != offset || block->bytes != bytes))
		ck_abort_msg("another range");
	return err;
}

START_TEST(claim__takes_given_ranges_in_order)
{
	struct block *block;

	init(64);
	(void)claim(0, 3 * GRAIN, 0);
	(void)claim(3 * GRAIN, GRAIN, 0);
	block = claim(10 * GRAIN, 4 * GRAIN, 0);
	ck_assert_uint_eq(block->offset, 10 * GRAIN);
	ck_assert_uint_eq(block->bytes, 4 * GRAIN);
	/* claimed already, before a claimed range; not whole grains, empty, behind the end */
	(void)claim(13 * GRAIN, GRAIN, -EEXIST);
	(void)claim(5 * GRAIN, GRAIN, -EEXIST);
	(void)claim(20 * GRAIN + 1, GRAIN, -EINVAL);
	(void)claim(20 * GRAIN, 0, -EINVAL);
	(void)claim(62 * GRAIN, 3 * GRAIN, -EINVAL);
	(void)claim(64 * GRAIN, GRAIN, -EINVAL);
	(void)claim(UINT64_MAX / GRAIN * GRAIN, 2 * GRAIN, -EINVAL);
	(void)claim(63 * GRAIN, GRAIN, 0);
	(void)claim(63 * GRAIN, GRAIN, -EEXIST);
	ck_assert_uint_eq(extents.sum[BLOCK_LENT], 9 * GRAIN);
	/* the ranges between the claimed ones are free */
	ck_assert_uint_eq(extents_largest(&extents, GRAIN), 49 * GRAIN);
	ck_assert_uint_eq(alloc(49, 1)->offset, 14 * GRAIN);
	ck_assert_uint_eq(alloc(6, 1)->offset, 4 * GRAIN);
	ck_assert_uint_eq(extents.sum[BLOCK_FREE], 0);
}
END_TEST

__extension__ typedef unsigned __int128 wide;

/* Whatever a file says was lent, a claim is a range of whole grains behind all others, or
 * refused. */
START_TEST(claim__at_borders_is_right_or_refused)
{
	const uint64_t lengths[] = { 64 * GRAIN, UINT64_C(2) << 20 };
	const struct borders borders = { lengths, 2 };
	uint64_t seed = random_u64(), state = seed, end = 0, lent = 0;

	printf("# RMEM_TEST_SEED=%" PRIu64 "\n", seed);
	(void)fflush(stdout);
	init(64);
	for (unsigned i = 0; i < 100000; i++) {
		uint64_t offset = border_at(&borders, random_next(&state));
		uint64_t bytes = border_at(&borders, random_next(&state));
		bool right = bytes && (offset | bytes) % GRAIN == 0 && offset >= end &&
			     (wide)offset + bytes <= 64 * GRAIN;

		if (right != !claim_err(offset, bytes))
			ck_abort_msg("%" PRIu64 " at %" PRIu64, bytes, offset);
		if (!right)
			continue;
		end = offset + bytes;
		lent += bytes;
	}
	ck_assert_uint_eq(extents.sum[BLOCK_LENT], lent);
	ck_assert_uint_eq(extents.sum[BLOCK_FREE], 64 * GRAIN - lent);
}
END_TEST

START_TEST(dirty_block__is_neither_free_nor_lent)
{
	struct block *a, *none = NULL;

	init(8);
	a = alloc(8, 1);
	extents_mark_dirty(&extents, a);
	ck_assert_uint_eq(extents.sum[BLOCK_LENT], 0);
	ck_assert_uint_eq(extents.sum[BLOCK_DIRTY], 8 * GRAIN);
	ck_assert_int_eq(extents_alloc(&extents, GRAIN, GRAIN, &none), -ENOSPC);
	ck_assert_ptr_null(none);
	extents_free(&extents, a);
	ck_assert_uint_eq(extents.sum[BLOCK_FREE], 8 * GRAIN);
	ck_assert_int_eq(extents_alloc(&extents, 9 * GRAIN, GRAIN, &none), -ENOSPC);
}
END_TEST

START_TEST(dirty_block__is_lent_as_far_as_it_is_clean)
{
	struct block *a, *b;

	init(8);
	a = alloc(8, 1);
	extents_mark_dirty(&extents, a);
	ck_assert(!extents_cleaned(&extents, a, 2 * GRAIN));
	ck_assert_uint_eq(extents.sum[BLOCK_DIRTY], 6 * GRAIN);
	b = alloc(2, 1);
	ck_assert_uint_eq(b->offset, 0);
	ck_assert(!extents_cleaned(&extents, a, GRAIN));
	ck_assert(extents_cleaned(&extents, a, 5 * GRAIN));
	/* a block that was cleaned in part before it was lent again is dirty as a whole */
	a = alloc(6, 1);
	ck_assert_uint_eq(a->clean, 0);
	extents_mark_dirty(&extents, a);
	ck_assert_uint_eq(extents_largest(&extents, GRAIN), 0);
	ck_assert(extents_cleaned(&extents, a, 6 * GRAIN));
}
END_TEST

/* ---- random operations, compared with a model: a letter for each grain ---- */

enum { GRAINS = 512, LENT_MAX = 200, STEPS = 10000 };

static uint64_t seed, state;

static uint64_t draw(uint64_t below)
{
	return random_next(&state) % below;
}

/* Millions of assertions of Check would take too long, as each writes to a pipe. */
#define REQUIRE(condition)                                       \
	do {                                                     \
		if (!(condition))                                \
			ck_abort_msg("%s is false", #condition); \
	} while (0)

/* Free, lent, dirty, closed, unclean: the initial letter of each. */
static char model[GRAINS];
static unsigned size, end; /* in grains; the closed end begins at `end` */
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

static void model_lend(struct block *block)
{
	model_set(block, 'f', 'l');
	held[n_held++] = block;
}

/* The length of the smallest run of free grains with an aligned part of n; 0: none. */
static unsigned model_best_fit(uint64_t n, uint64_t align)
{
	unsigned best = 0;

	for (unsigned i = 0; n <= size && i < size;) {
		unsigned start = i;
		uint64_t aligned;

		while (i < size && model[i] == 'f')
			i++;
		aligned = (start + align - 1) / align * align;
		if (aligned + n <= i && i > start && (best == 0 || i - start < best))
			best = i - start;
		if (i == start)
			i++;
	}
	return best;
}

static bool count_run(void *ctx, uint64_t offset, uint64_t bytes)
{
	unsigned *n = ctx;

	(void)offset;
	(void)bytes;
	return ++*n < 2;
}

/* Ten lent grains, of which every second one is freed, and the rest. */
START_TEST(each_run__looks_at_few_blocks)
{
	struct block *blocks[10];
	unsigned left = 5, runs = 0;

	init(20);
	for (unsigned i = 0; i < 10; i++)
		ck_assert_int_eq(extents_alloc(&extents, GRAIN, GRAIN, &blocks[i]), 0);
	ck_assert(!extents_each_run(&extents, &left, count_run, &runs));
	ck_assert_uint_eq(left, 0);
	ck_assert_uint_eq(runs, 0);
	left = 100;
	ck_assert(extents_each_run(&extents, &left, count_run, &runs));
	ck_assert_uint_eq(left, 100 - 11);
	ck_assert_uint_eq(runs, 1);
	/* until the function has seen enough */
	for (unsigned i = 0; i < 10; i += 2)
		extents_free(&extents, blocks[i]);
	runs = 0;
	left = 100;
	ck_assert(!extents_each_run(&extents, &left, count_run, &runs));
	ck_assert_uint_eq(runs, 2);
}
END_TEST

static bool check_runs(void *ctx, uint64_t offset, uint64_t bytes)
{
	unsigned *grains = ctx, start = (unsigned)(offset / GRAIN);
	unsigned after = start + (unsigned)(bytes / GRAIN);

	REQUIRE(after <= end);
	for (unsigned i = start; i < after; i++)
		REQUIRE(model[i] == 'f' || model[i] == 'd');
	/* the run is complete */
	REQUIRE(start == 0 || model[start - 1] == 'l');
	REQUIRE(after == end || model[after] == 'l');
	*grains += after - start;
	return true;
}

/* Blocks tile the range and agree with the model; free blocks do not touch. */
static void check_all(void)
{
	static const char letter[] = { [BLOCK_FREE] = 'f',
				       [BLOCK_LENT] = 'l',
				       [BLOCK_DIRTY] = 'd',
				       [BLOCK_CLOSED] = 'c' };
	uint64_t at = 0, bytes[4] = { 0 };
	unsigned grains = 0, n_not_lent = 0, left = UINT_MAX;
	bool free_before = false;

	list_for_each_entry(const struct block, block, &extents.order, order) {
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
	REQUIRE(bytes[BLOCK_FREE] == extents.sum[BLOCK_FREE]);
	REQUIRE(bytes[BLOCK_LENT] == extents.sum[BLOCK_LENT]);
	REQUIRE(bytes[BLOCK_DIRTY] == extents.sum[BLOCK_DIRTY]);
	REQUIRE(bytes[BLOCK_CLOSED] == extents.sum[BLOCK_CLOSED]);
	REQUIRE(extents_end_is_free(&extents) ==
		(bytes[BLOCK_CLOSED] == (size - end) * GRAIN));
	REQUIRE(extents_each_run(&extents, &left, check_runs, &grains));
	for (unsigned i = 0; i < end; i++)
		n_not_lent += model[i] != 'l';
	REQUIRE(grains == n_not_lent);
}

/* A number of grains: most often few, else at a border. */
static uint64_t draw_grains(void)
{
	const uint64_t lengths[] = { size * GRAIN, end * GRAIN, UINT64_C(2) << 20 };
	const struct borders borders = { lengths, 3 };
	uint64_t n = draw(4) ? draw(draw(4) ? 8 : 100)
			     : border_at(&borders, draw(UINT32_MAX)) / GRAIN;

	return n ? n : 1;
}

static uint64_t draw_align(void)
{
	return UINT64_C(1) << draw(draw(4) ? 5 : 52);
}

static void step_alloc(void)
{
	uint64_t n = draw_grains(), align = draw_align();
	unsigned best = model_best_fit(n, align);
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
		/* best fit: the smallest run that holds it */
		unsigned start = (unsigned)(block->offset / GRAIN), after = start;

		while (start > 0 && model[start - 1] == 'f')
			start--;
		while (after < size && model[after] == 'f')
			after++;
		ck_assert_uint_eq(after - start, best);
	}
	model_lend(block);
}

static void step_alloc_most(void)
{
	uint64_t align = draw_align(), bytes = draw_grains() * GRAIN, most = 0;
	struct block *block;
	int err;

	if (n_held == LENT_MAX)
		return;
	for (unsigned n = size; n > 0 && !most; n--)
		most = model_best_fit(n, align) ? n : 0;
	ck_assert_uint_eq(extents_largest(&extents, align * GRAIN), most * GRAIN);
	err = extents_alloc_most(&extents, bytes, align * GRAIN, &block);
	ck_assert_int_eq(err, most ? 0 : -ENOSPC);
	if (err)
		return;
	ck_assert_uint_eq(block->bytes, most * GRAIN < bytes ? most * GRAIN : bytes);
	model_lend(block);
}

static void model_replace(unsigned from, unsigned to, char is, char becomes)
{
	for (unsigned i = from; i < to; i++)
		if (model[i] == is)
			model[i] = becomes;
}

/* A block is free again, or closed. */
static void model_free(const struct block *block, char from)
{
	for (uint64_t i = block->offset / GRAIN;
	     i < (block->offset + block->bytes) / GRAIN; i++) {
		ck_assert_int_eq(model[i], from);
		model[i] = i < end ? 'f' : 'c';
	}
}

static void step_free(void)
{
	unsigned i;

	if (n_held == 0 || n_dirty + n_unclean == LENT_MAX)
		return;
	i = (unsigned)draw(n_held);
	if (held[i]->offset >= end * GRAIN && draw(2)) {
		model_set(held[i], 'l', 'u');
		n_unclean++;
		extents_drop(&extents, held[i]);
	} else if (draw(3)) {
		model_set(held[i], 'l', 'd');
		dirty[n_dirty++] = held[i];
		extents_mark_dirty(&extents, held[i]);
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
	struct block *block, was;
	uint64_t left, piece;
	unsigned i, from, to;
	bool gone;

	if (n_dirty == 0)
		return;
	i = (unsigned)draw(n_dirty);
	block = dirty[i];
	was = *block;
	left = (was.bytes - was.clean) / GRAIN;
	piece = draw(2) ? left : 1 + draw(left);
	from = (unsigned)(was.offset / GRAIN);
	to = from + (unsigned)(was.clean / GRAIN + piece);
	gone = extents_cleaned(&extents, block, piece * GRAIN);
	ck_assert_int_eq(gone, piece == left);
	if (gone) {
		model_free(&was, 'd');
		dirty[i] = dirty[--n_dirty];
	} else if (to < end) {
		model_replace(from, to, 'd', 'f');
	} else {
		ck_assert_uint_eq(block->clean, was.clean + piece * GRAIN);
	}
}

/* The end is moved in steps of a few blocks, between which anything else happens. */
static enum { MOVES_NOT, CLOSES, REOPENS, CUTS } moves;
static unsigned close_to;

static unsigned some_blocks(void)
{
	return (unsigned)draw(draw(2) ? 4 : GRAINS);
}

static void step_close(void)
{
	unsigned before = end;
	bool done;

	if (moves == MOVES_NOT) {
		if (end < size || size == 1)
			return;
		close_to = 1 + (unsigned)draw(size - 1);
		ck_assert_int_eq(extents_reserve(&extents), 0);
		moves = CLOSES;
	}
	done = extents_close(&extents, close_to * GRAIN, some_blocks());
	end = (unsigned)(extents.end / GRAIN);
	ck_assert_int_eq(done, end == close_to);
	model_replace(end, before, 'f', 'c');
	if (done)
		moves = MOVES_NOT;
}

static void on_dirtied(void *ctx, struct block *block)
{
	ck_assert_ptr_eq(ctx, &extents);
	ck_assert_int_eq(block->state, BLOCK_DIRTY);
	n_unclean--;
	dirty[n_dirty++] = block;
}

static void step_reopen(void)
{
	unsigned before = end;

	if (moves == MOVES_NOT && end == size)
		return;
	/* also of an end that is not quite closed */
	moves = REOPENS;
	if (extents_reopen(&extents, some_blocks(), on_dirtied, &extents)) {
		ck_assert_uint_eq(n_unclean, 0);
		ck_assert_uint_eq(extents.end, extents.bytes);
		moves = MOVES_NOT;
	}
	end = (unsigned)(extents.end / GRAIN);
	model_replace(before, end, 'c', 'f');
	model_replace(before, end, 'u', 'd');
}

static void step_cut(void)
{
	if (moves == MOVES_NOT && (end == size || !extents_end_is_free(&extents)))
		return;
	moves = CUTS;
	if (extents_cut(&extents, some_blocks())) {
		ck_assert_uint_eq(extents.bytes, extents.end);
		n_unclean = 0;
		moves = MOVES_NOT;
	}
	size = (unsigned)(extents.bytes / GRAIN);
}

static void step_grow(void)
{
	if (moves != MOVES_NOT || end < size || size == GRAINS)
		return;
	memset(&model[size], 'f', GRAINS - size);
	size += 1 + (unsigned)draw(GRAINS - size);
	end = size;
	ck_assert_int_eq(extents_reserve(&extents), 0);
	extents_grow(&extents, size * GRAIN);
}

static void step_resize(void)
{
	static void (*const steps[])(void) = { step_close, step_reopen, step_grow };

	if (moves == CUTS)
		step_cut();
	else if (moves == REOPENS || (moves == CLOSES && draw(8) == 0))
		step_reopen();
	else if (moves == CLOSES)
		step_close();
	else if (end < size && extents_end_is_free(&extents) && draw(2))
		step_cut();
	else
		steps[draw(3)]();
}

START_TEST(random_operations__agree_with_a_model)
{
	const char *given = getenv("RMEM_TEST_SEED");

	seed = given ? strtoull(given, NULL, 0) : random_u64();
	state = seed;
	printf("# RMEM_TEST_SEED=%" PRIu64 "\n", seed);
	(void)fflush(stdout);
	memset(model, 'f', sizeof(model));
	size = end = GRAINS;
	init(GRAINS);
	for (unsigned i = 0; i < STEPS; i++) {
		switch (draw(9)) {
		case 0:
		case 1:
		case 2:
			step_alloc();
			break;
		case 3:
			step_alloc_most();
			break;
		case 4:
		case 5:
			step_free();
			break;
		case 6:
			step_split();
			break;
		default:
			step_clean();
		}
		check_all();
		if (draw(moves == MOVES_NOT ? 25 : 4) == 0) {
			step_resize();
			check_all();
		}
	}
	while (moves == CUTS)
		step_cut();
	do
		step_reopen();
	while (moves != MOVES_NOT);
	while (n_held > 0)
		step_free();
	while (n_dirty > 0) {
		step_clean();
		check_all();
	}
	/* all free blocks have been merged */
	ck_assert_uint_eq(extents_largest(&extents, GRAIN), size * GRAIN);
}
END_TEST

START_TEST(cut__waits_for_blocks_in_the_closed_end)
{
	struct block *low, *across, *high, *block;

	init(64);
	low = alloc(20, 1);
	across = alloc(20, 1);
	high = alloc(8, 1);
	ck_assert_int_eq(extents_reserve(&extents), 0);
	ck_assert(extents_close(&extents, 32 * GRAIN, UINT_MAX));
	/* 16 grains after the extents were free */
	ck_assert_uint_eq(extents.sum[BLOCK_FREE], 0);
	ck_assert_uint_eq(extents.sum[BLOCK_CLOSED], 16 * GRAIN);
	ck_assert_int_eq(extents_alloc(&extents, GRAIN, GRAIN, &block), -ENOSPC);
	extents_drop(&extents, high);
	extents_mark_dirty(&extents, across);
	ck_assert(!extents_end_is_free(&extents));
	extents_free(&extents, across);
	ck_assert(extents_end_is_free(&extents));
	ck_assert_uint_eq(extents.sum[BLOCK_FREE], 12 * GRAIN);
	ck_assert(extents_cut(&extents, UINT_MAX));
	ck_assert_uint_eq(extents.bytes, 32 * GRAIN);
	ck_assert_uint_eq(alloc(12, 1)->offset, 20 * GRAIN);
	extents_free(&extents, low);
	/* no free block is at the end, so the added grains are a block of their own */
	ck_assert_int_eq(extents_reserve(&extents), 0);
	extents_grow(&extents, 64 * GRAIN);
	ck_assert_uint_eq(extents_largest(&extents, GRAIN), 32 * GRAIN);
	ck_assert_uint_eq(alloc(32, 1)->offset, 32 * GRAIN);
}
END_TEST

/* A step handles so many blocks, however many there are. */
START_TEST(close_reopen_and_cut__take_steps)
{
	struct block *blocks[64];

	init(64);
	for (unsigned i = 0; i < 64; i++)
		blocks[i] = alloc(1, 1);
	for (unsigned i = 0; i < 64; i += 2)
		extents_free(&extents, blocks[i]);
	ck_assert_int_eq(extents_reserve(&extents), 0);
	ck_assert(!extents_close(&extents, 16 * GRAIN, 40));
	ck_assert_uint_eq(extents.end, 24 * GRAIN);
	ck_assert_uint_eq(extents.sum[BLOCK_CLOSED], 20 * GRAIN);
	ck_assert(!extents_reopen(&extents, 10, NULL, NULL));
	ck_assert_uint_eq(extents.end, 34 * GRAIN);
	ck_assert_uint_eq(extents.sum[BLOCK_CLOSED], 15 * GRAIN);
	ck_assert(extents_close(&extents, 16 * GRAIN, 18));
	for (unsigned i = 17; i < 64; i += 2)
		extents_drop(&extents, blocks[i]);
	ck_assert(!extents_cut(&extents, 47));
	ck_assert_uint_eq(extents.bytes, 17 * GRAIN);
	ck_assert(extents_cut(&extents, 1));
	ck_assert_uint_eq(extents.bytes, 16 * GRAIN);
	ck_assert_uint_eq(extents.sum[BLOCK_CLOSED], 0);
}
END_TEST

static struct extents_run walk_next(struct extents_walk *walk)
{
	struct extents_run run;

	do
		ck_assert(extents_walk_next(walk, UINT64_MAX, &run));
	while (run.bytes == 0);
	return run;
}

START_TEST(walk__sees_each_byte_once)
{
	struct block *a, *b, *c;
	struct extents_run run;
	struct extents_walk walk;

	init(64);
	a = alloc(8, 1);
	b = alloc(8, 1);
	c = alloc(8, 1);
	b->owner = "b";
	extents_mark_dirty(&extents, c);
	extents_walk_begin(&extents, &walk);
	ck_assert(extents_walk_next(&walk, 5 * GRAIN, &run));
	ck_assert_uint_eq(run.bytes, 5 * GRAIN);
	ck_assert_ptr_null(run.owner);
	/* the walk is inside of a block that is joined with others */
	extents_free(&extents, a);
	run = walk_next(&walk);
	ck_assert_uint_eq(run.offset, 5 * GRAIN);
	ck_assert_uint_eq(run.bytes, 3 * GRAIN);
	ck_assert_int_eq(run.state, BLOCK_FREE);
	run = walk_next(&walk);
	ck_assert_int_eq(run.state, BLOCK_LENT);
	ck_assert_str_eq(run.owner, "b");
	/* the next block goes into one that begins before it */
	extents_free(&extents, b);
	ck_assert(!extents_cleaned(&extents, c, 3 * GRAIN));
	run = walk_next(&walk);
	ck_assert_uint_eq(run.offset, 16 * GRAIN);
	ck_assert_uint_eq(run.bytes, 3 * GRAIN);
	ck_assert_int_eq(run.state, BLOCK_FREE);
	ck_assert(extents_cleaned(&extents, c, 5 * GRAIN));
	run = walk_next(&walk);
	ck_assert_uint_eq(run.offset, 19 * GRAIN);
	ck_assert_uint_eq(run.bytes, 45 * GRAIN);
	ck_assert_int_eq(run.state, BLOCK_FREE);
	ck_assert(!extents_walk_next(&walk, UINT64_MAX, &run));
	extents_walk_end(&walk);
	ck_assert(list_empty(&extents.walks));
}
END_TEST

START_TEST(walk__ends_where_the_range_is_cut_off)
{
	struct extents_run run;
	struct extents_walk walk;

	init(64);
	(void)alloc(32, 1);
	extents_walk_begin(&extents, &walk);
	(void)walk_next(&walk);
	ck_assert_int_eq(extents_reserve(&extents), 0);
	ck_assert(extents_close(&extents, 48 * GRAIN, UINT_MAX));
	run = walk_next(&walk);
	ck_assert_uint_eq(run.bytes, 16 * GRAIN);
	ck_assert(extents_cut(&extents, UINT_MAX));
	ck_assert(!extents_walk_next(&walk, UINT64_MAX, &run));
	extents_walk_end(&walk);
}
END_TEST

START_TEST(walk__outlasts_the_extents)
{
	struct extents_run run;
	struct extents_walk walk;

	init(64);
	extents_walk_begin(&extents, &walk);
	extents_destroy(&extents);
	ck_assert(!extents_walk_next(&walk, UINT64_MAX, &run));
	extents_walk_end(&walk);
}
END_TEST

/* Whatever happens between its steps, a walk goes on where it stopped, up to the end. */
START_TEST(walk__beside_random_operations)
{
	enum { BLOCKS = 128 };
	bool is_dirty[BLOCKS] = { false };
	const char *given = getenv("RMEM_TEST_SEED");
	struct block *blocks[BLOCKS] = { 0 };

	seed = given ? strtoull(given, NULL, 0) : random_u64();
	state = seed;
	printf("# RMEM_TEST_SEED=%" PRIu64 "\n", seed);
	init(GRAINS);
	for (unsigned n = 0; n < 500; n++) {
		struct extents_walk walk;
		struct extents_run run;
		uint64_t at = 0;

		extents_walk_begin(&extents, &walk);
		while (extents_walk_next(&walk, at + 7 * GRAIN, &run)) {
			unsigned i = (unsigned)(random_next(&state) % BLOCKS);
			struct block **block = &blocks[i];

			ck_assert_uint_eq(run.offset, at);
			at += run.bytes;
			if (is_dirty[i]) {
				is_dirty[i] = !extents_cleaned(&extents, *block, GRAIN);
				if (!is_dirty[i])
					*block = NULL;
			} else if (*block && draw(2)) {
				extents_mark_dirty(&extents, *block);
				is_dirty[i] = true;
			} else if (*block) {
				extents_free(&extents, *block);
				*block = NULL;
			} else {
				(void)extents_alloc(&extents,
						    (1 + random_next(&state) % 16) *
							    GRAIN,
						    GRAIN, block);
			}
		}
		ck_assert_uint_eq(at, GRAINS * GRAIN);
		extents_walk_end(&walk);
	}
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("extents", NULL, teardown);

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, each_run__looks_at_few_blocks);
	tcase_add_test(tc, alloc__prefers_the_smallest_block_that_fits);
	tcase_add_test(tc, alloc__aligns_and_keeps_the_rest_free);
	tcase_add_test(tc, alloc__finds_the_only_block_that_is_aligned);
	tcase_add_test(tc, claim__takes_given_ranges_in_order);
	tcase_add_test(tc, claim__at_borders_is_right_or_refused);
	tcase_add_test(tc, dirty_block__is_neither_free_nor_lent);
	tcase_add_test(tc, dirty_block__is_lent_as_far_as_it_is_clean);
	tcase_add_test(tc, cut__waits_for_blocks_in_the_closed_end);
	tcase_add_test(tc, close_reopen_and_cut__take_steps);
	tcase_add_test(tc, walk__sees_each_byte_once);
	tcase_add_test(tc, walk__ends_where_the_range_is_cut_off);
	tcase_add_test(tc, walk__outlasts_the_extents);
	tcase_add_test(tc, walk__beside_random_operations);
	tcase_add_test(tc, random_operations__agree_with_a_model);
	return unit_main();
}
