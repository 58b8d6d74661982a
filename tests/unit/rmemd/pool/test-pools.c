/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of pools is allocated, freed, scrubbed, and claimed after a restart. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/pool/scrubber.h"
#include "unit/borders.h"
#include "unit/rmemd/pool/pools-case.h"
#include "wire/msg.h"

/* Wait until all freed memory is clean. */
static void await_clean(void)
{
	for (;;) {
		uint64_t dirty = 0;

		for (unsigned i = 0; i < pools_count(pools); i++)
			dirty += pools_status(pools, i).scrubbing;
		if (dirty == 0)
			return;
		ck_assert_uint_gt(await_event(), 0);
	}
}

static int alloc_aligned(uint64_t bytes, uint64_t align, unsigned max)
{
	return alloc_as(&(struct pool_request){ .bytes = bytes, .align = align }, max);
}

START_TEST(free__zeroes_before_the_next_grant)
{
	uint64_t offset;

	open_one(MIB);
	(void)alloc_one(MIB);
	ck_assert(extent_is(&allocated[0], 0));
	extent_fill(&allocated[0], (char)0xa5);
	offset = allocated[0].offset;
	pools_free(pools, allocated[0]);
	ck_assert_uint_eq(pools_status(pools, 0).lent, 0);
	ck_assert_uint_eq(pools_status(pools, 0).scrubbing, MIB);
	ck_assert_uint_eq(pools_status(pools, 0).free, 0);
	/* only pools_process() makes it free */
	ck_assert_int_eq(alloc(4096, 1), -EAGAIN);
	await_clean();
	(void)alloc_one(MIB);
	ck_assert_uint_eq(allocated[0].offset, offset);
	ck_assert(extent_is(&allocated[0], 0));
	ck_assert_uint_eq(pools_status(pools, 0).scrubbed_ever, MIB);
	ck_assert_uint_eq(pools_status(pools, 0).lent, MIB);
}
END_TEST

START_TEST(free__lends_each_piece_once_it_is_clean)
{
	uint64_t bytes = 2 * SCRUB_PIECE_BYTES + MIB;
	struct pool_status status;

	open_one(bytes);
	(void)alloc_one(bytes);
	extent_fill(&allocated[0], (char)0xa5);
	pools_free(pools, allocated[0]);
	for (unsigned i = 1; i <= 2; i++) {
		ck_assert_uint_eq(await_event(), SCRUB_PIECE_BYTES);
		status = pools_status(pools, 0);
		ck_assert_uint_eq(status.free, SCRUB_PIECE_BYTES);
		ck_assert_uint_eq(status.scrubbing, bytes - i * SCRUB_PIECE_BYTES);
		ck_assert_uint_eq(status.scrubbed_ever, i * SCRUB_PIECE_BYTES);
		(void)alloc_one(SCRUB_PIECE_BYTES);
		ck_assert(extent_is(&allocated[0], 0));
	}
	await_clean();
	(void)alloc_one(MIB);
	ck_assert(extent_is(&allocated[0], 0));
}
END_TEST

START_TEST(free__of_a_small_extent_does_not_wait_for_a_large_one)
{
	struct extent large, small;

	open_one(4 * SCRUB_PIECE_BYTES);
	large = alloc_one(4 * SCRUB_PIECE_BYTES - MIB);
	small = alloc_one(MIB);
	pools_free(pools, large);
	pools_free(pools, small);
	/* what is left of the large one alone is no number of pieces */
	do
		(void)await_event();
	while (pools_status(pools, 0).scrubbing % SCRUB_PIECE_BYTES == 0);
	ck_assert_uint_gt(pools_status(pools, 0).scrubbing, SCRUB_PIECE_BYTES);
}
END_TEST

/* Else it could be lent twice. */
START_TEST(free__of_what_is_not_lent_so_aborts)
{
	struct extent lent, cut;

	open_one(MIB);
	lent = cut = alloc_one(MIB);
	if (_i == 0)
		pools_free(pools, lent);
	else
		(void)pools_free_tail(pools, &cut, 4096);
	pools_free(pools, lent);
}
END_TEST

START_TEST(free_tail__keeps_whole_pages)
{
	struct extent extent;

	open_one(MIB);
	extent = alloc_one(MIB);
	extent_fill(&extent, (char)0xa5);
	ck_assert_uint_eq(pools_free_tail(pools, &extent, MIB - 4095), 0);
	ck_assert_uint_eq(extent.bytes, MIB);
	ck_assert_uint_eq(pools_free_tail(pools, &extent, 4097), MIB - 8192);
	ck_assert_uint_eq(extent.bytes, 8192);
	ck_assert_uint_eq(pools_status(pools, 0).lent, 8192);
	await_clean();
	/* the freed tail is clean and lent again, the rest is unchanged */
	(void)alloc_one(MIB - 8192);
	ck_assert(extent_is(&allocated[0], 0));
	ck_assert_int_eq(((const char *)extent_addr(&extent))[8191], (char)0xa5);
	pools_free(pools, extent);
	pools_free(pools, allocated[0]);
	await_clean();
	(void)alloc_one(MIB);
}
END_TEST

/* Whether memory becomes clean although the scrubber has to wait. */
static bool becomes_clean(void)
{
	struct pollfd pollfd = { .fd = pools_fd(pools), .events = POLLIN };

	return poll(&pollfd, 1, 50) > 0;
}

static void free_quarters(void)
{
	struct extent quarters[4];

	for (unsigned i = 0; i < 4; i++) {
		quarters[i] = alloc_one(MIB);
		extent_fill(&quarters[i], (char)0xa5);
	}
	for (unsigned i = 0; i < 4; i++)
		pools_free(pools, quarters[i]);
}

START_TEST(scrubber__keeps_its_rate_unless_a_request_waits)
{
	open_one(4 * MIB);
	pools_set_scrub_rate(pools, 1);
	free_quarters();
	/* the first extent is zeroed at once */
	while (pools_process(pools) == 0)
		(void)becomes_clean();
	ck_assert(!becomes_clean());
	pools_hurry(pools, true);
	await_clean();
	(void)alloc_one(4 * MIB);
	ck_assert(extent_is(&allocated[0], 0));
	pools_free(pools, allocated[0]);
	await_clean();
	/* extents that were zeroed in a hurry do not count for the rate */
	pools_hurry(pools, false);
	pools_set_scrub_rate(pools, PIB);
	free_quarters();
	await_clean();
	/* a new rate is used at once */
	pools_set_scrub_rate(pools, 1);
	free_quarters();
	ck_assert(!becomes_clean());
	pools_set_scrub_rate(pools, 0);
	await_clean();
	/* pools_close() does not wait for a scrubber that pauses */
	pools_set_scrub_rate(pools, 1);
	free_quarters();
	ck_assert(!becomes_clean());
	close_pools();
}
END_TEST

static void on_freed(void *ctx)
{
	(*(unsigned *)ctx)++;
}

START_TEST(freed_memory__waits_for_pools_scrub)
{
	unsigned n_calls = 0;

	open_one(4 * MIB);
	pools_on_freed(pools, on_freed, &n_calls);
	free_quarters();
	ck_assert_uint_eq(n_calls, 1);
	ck_assert(!becomes_clean());
	pools_scrub(pools);
	await_clean();
	/* there is freed memory again */
	free_quarters();
	ck_assert_uint_eq(n_calls, 2);
	ck_assert(!becomes_clean());
	/* a request waits for clean memory */
	pools_hurry(pools, true);
	await_clean();
	pools_hurry(pools, false);
	free_quarters();
	ck_assert_uint_eq(n_calls, 3);
	pools_on_freed(pools, NULL, NULL);
	await_clean();
	free_quarters();
	await_clean();
	ck_assert_uint_eq(n_calls, 3);
	pools_on_freed(pools, on_freed, &n_calls);
	free_quarters();
	/* pools_close() does not wait for the scrubber */
	close_pools();
}
END_TEST

START_TEST(alloc__fails_with_enospc_if_full_with_eagain_if_dirty)
{
	struct extent half;

	open_one(MIB);
	ck_assert_int_eq(alloc(MIB + 1, 8), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "the pools have 1 MiB in all"));
	ck_assert_int_eq(alloc(UINT64_MAX, 8), -ENOSPC);
	half = alloc_one(MIB / 2);
	ck_assert_int_eq(alloc(MIB, 1), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "512 KiB are free"));
	pools_free(pools, half);
	ck_assert_int_eq(alloc(MIB, 1), -EAGAIN);
	ck_assert_int_eq(alloc(MIB + 1, 8), -ENOSPC);
	await_clean();
	(void)alloc_one(MIB);
}
END_TEST

START_TEST(alloc__splits_a_request_over_free_blocks)
{
	struct extent extents[8];
	uint64_t sum = 0;

	open_one(MIB);
	for (unsigned i = 0; i < 8; i++)
		extents[i] = alloc_one(128 * KIB);
	for (unsigned i = 0; i < 8; i += 2)
		pools_free(pools, extents[i]);
	/* once clean, three extents are too small */
	ck_assert_int_eq(alloc(512 * KIB, 3), -ENOSPC);
	await_clean();
	ck_assert_int_eq(alloc(512 * KIB, 3), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "the largest piece is 128 KiB"));
	n_allocated = 77;
	ck_assert_int_eq(alloc(300 * KIB, 2), -ENOSPC);
	ck_assert_uint_eq(n_allocated, 77);
	/* the refused request has allocated nothing */
	ck_assert_int_eq(alloc(300 * KIB, 8), 0);
	ck_assert_uint_eq(n_allocated, 3);
	for (unsigned i = 0; i < n_allocated; i++) {
		sum += allocated[i].bytes;
		ck_assert(extent_is(&allocated[i], 0));
	}
	ck_assert_uint_eq(sum, 300 * KIB);
	ck_assert_uint_eq(allocated[2].bytes, 44 * KIB);
}
END_TEST

START_TEST(alloc__error_text_fits_into_a_message)
{
	const char *text;

	open_one(MIB);
	(void)alloc_one(1000 * KIB + 1);
	ck_assert_int_eq(alloc(MIB, 8), -ENOSPC);
	text = err_text();
	/* the text has four sizes, which are longer on a larger host */
	ck_assert_uint_lt(strlen(text) + 4 * strlen("1023.99 TiB"), WIRE_NAME_MAX);
	ck_assert_ptr_nonnull(strstr(text, "ask for less"));
}
END_TEST

static void free_allocated(void)
{
	for (unsigned i = 0; i < n_allocated; i++)
		pools_free(pools, allocated[i]);
}

START_TEST(alloc__limits_extents_to_what_a_device_registers)
{
	open_one(MIB);
	/* 17 pages are 68 KiB; aligned to 64 KiB, 64 KiB */
	pools_set_extent_max(pools, 69 * KIB);
	ck_assert_int_eq(alloc_aligned(MIB, 64 * KIB, 15), -ENOSPC);
	ck_assert_str_eq(err_text(),
			 "no room for 1 MiB: an RDMA device here registers 64 KiB at "
			 "once, and a lease takes at most 15 pieces; ask for less");
	ck_assert_int_eq(alloc_aligned(MIB, 64 * KIB, 16), 0);
	ck_assert_uint_eq(n_allocated, 16);
	for (unsigned i = 0; i < 16; i++) {
		ck_assert_uint_eq(allocated[i].bytes, 64 * KIB);
		ck_assert_uint_eq(allocated[i].offset, i * 64 * KIB);
	}
	/* once clean, the memory is enough for 8 extents of 68 KiB, but not for 7 */
	free_allocated();
	ck_assert_int_eq(alloc(8 * 68 * KIB, 8), -EAGAIN);
	ck_assert_int_eq(alloc(7 * 68 * KIB + 1, 7), -ENOSPC);
	await_clean();
	ck_assert_int_eq(alloc(2 * 68 * KIB + 1, 3), 0);
	ck_assert_uint_eq(n_allocated, 3);
	ck_assert_uint_eq(allocated[1].bytes, 68 * KIB);
	ck_assert_uint_eq(allocated[2].bytes, 4 * KIB);
	/* at the end all free memory is one block */
	free_allocated();
	await_clean();
	pools_set_extent_max(pools, 0);
	(void)alloc_one(MIB);
}
END_TEST

/* Two free blocks, both longer than a device registers at once. */
START_TEST(alloc__of_too_many_extents_allocates_nothing)
{
	struct extent extents[4];

	open_one(MIB);
	for (unsigned i = 0; i < 4; i++)
		extents[i] = alloc_one(256 * KIB);
	pools_free(pools, extents[0]);
	pools_free(pools, extents[2]);
	await_clean();
	pools_set_extent_max(pools, 200 * KIB);
	/* each block is 200 and 56 KiB */
	ck_assert_int_eq(alloc(512 * KIB, 3), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "512 KiB are free"));
	ck_assert_uint_eq(pools_status(pools, 0).free, 512 * KIB);
	ck_assert_uint_eq(pools_status(pools, 0).largest_free, 256 * KIB);
	ck_assert_int_eq(alloc(512 * KIB, 4), 0);
	ck_assert_uint_eq(n_allocated, 4);
}
END_TEST

START_TEST(alloc__rounds_up_and_aligns)
{
	open_one(MIB);
	(void)alloc_one(1);
	ck_assert_uint_eq(allocated[0].bytes, 4096);
	ck_assert_int_eq(alloc_aligned(5000, 256 * KIB, 1), 0);
	ck_assert_uint_eq(allocated[0].bytes, 8192);
	ck_assert_uint_eq(allocated[0].offset % (256 * KIB), 0);
	ck_assert_uint_eq(extent_pool(&allocated[0]).page_bytes, 4096);
}
END_TEST

START_TEST(alloc__uses_several_pools)
{
	const struct pool_params params[] = {
		POOL("a", POOL_NODE_ANY, MIB, POOL_PAGES_BASE),
		POOL("b", POOL_NODE_ANY, MIB, POOL_PAGES_BASE),
	};
	struct pool *first;

	open_pools(params, 2);
	ck_assert_uint_eq(pools_count(pools), 2);
	first = alloc_one(4096).pool;
	ck_assert_ptr_ne(alloc_one(4096).pool, first);
	ck_assert_int_eq(alloc(3 * MIB / 2, 1), -ENOSPC);
	ck_assert_int_eq(alloc(3 * MIB / 2, 2), 0);
	ck_assert_uint_eq(n_allocated, 2);
	ck_assert_ptr_ne(allocated[0].pool, allocated[1].pool);
	for (unsigned i = 0; i < 2; i++)
		extent_fill(&allocated[i], 1);
	free_allocated();
	await_clean();
	ck_assert_str_eq(pools_status(pools, 1).name, "b");
	ck_assert_uint_eq(pools_status(pools, 1).free, MIB - 4096);
}
END_TEST

/* The extents hold the bytes, rounded up to a page, inside of their pools. */
static void check_allocated(uint64_t bytes, uint64_t align)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n_allocated; i++) {
		const struct extent *extent = &allocated[i];
		uint64_t pool_bytes =
			strcmp(extent_pool(extent).name, "a") == 0 ? MIB : 4 * MIB;

		ck_assert_uint_le(extent->bytes, pool_bytes);
		ck_assert_uint_le(extent->offset, pool_bytes - extent->bytes);
		ck_assert_uint_eq(extent->offset % align, 0);
		sum += extent->bytes;
	}
	ck_assert_uint_ge(sum, bytes);
	ck_assert_uint_lt(sum - bytes, 4096);
}

/* A pool on base pages, and one on huge pages, which the kernel need not have for a file that is
 * there already. */
static void open_base_and_huge(void)
{
	const struct pool_params params[] = {
		POOL("a", POOL_NODE_ANY, MIB, POOL_PAGES_BASE),
		{ .name = "b",
		  .node = POOL_NODE_ANY,
		  .bytes = 4 * MIB,
		  .pages = POOL_PAGES_THP,
		  .file = kept_fd,
		  .kept = true,
		  .pages_kept = POOL_PAGES_THP },
	};

	ck_assert_int_eq(ftruncate(kept_fd, 4 * MIB), 0);
	open_pools(params, 2);
	ck_assert_uint_eq(pools_status(pools, 1).page_bytes, 2 * MIB);
	ck_assert_int_eq(pools_zero_unlent(pools), 0);
	await_clean();
}

/* With alignments below, at and above a page. */
START_TEST(alloc__at_borders_is_right_or_refused)
{
	const uint64_t lengths[] = { 4 * MIB, 5 * MIB };
	const struct borders borders = { lengths, 2 };
	const uint64_t aligns[] = { 1, 4096, 8192, 2 * MIB, KIB * MIB };
	uint64_t align = aligns[_i];

	kept_make();
	open_base_and_huge();
	for (unsigned i = 0; i < borders_count(&borders); i++) {
		uint64_t bytes = border_at(&borders, i);

		if (bytes == 0)
			continue;
		/* a pool begins at a multiple of every alignment */
		if (bytes > 5 * MIB) {
			ck_assert_int_eq(alloc_aligned(bytes, align, EXTENTS_MAX),
					 -ENOSPC);
			continue;
		}
		ck_assert_int_eq(alloc_aligned(bytes, align, EXTENTS_MAX), 0);
		check_allocated(bytes, align);
		free_allocated();
		await_clean();
	}
	ck_assert_uint_eq(pools_status(pools, 0).free, MIB);
	ck_assert_uint_eq(pools_status(pools, 1).free, 4 * MIB);
}
END_TEST

/* The byte of the kept memory at this offset. */
static char kept_byte(uint64_t offset)
{
	char byte = 1;

	ck_assert_int_eq(pread(kept_fd, &byte, 1, (off_t)offset), 1);
	return byte;
}

START_TEST(close__does_not_wait_for_dirty_memory)
{
	const uint64_t bytes = 2 * SCRUB_PIECE_BYTES;

	kept_make();
	ck_assert_int_eq(open_kept(bytes, POOL_PAGES_BASE, POOL_PAGES_AUTO), 0);
	(void)alloc_one(bytes);
	extent_fill(&allocated[0], (char)0xa5);
	/* so slow that the scrubber rests in the first piece until it has to stop */
	pools_set_scrub_rate(pools, 1);
	pools_free(pools, allocated[0]);
	pools_scrub(pools);
	while (kept_byte(0) != 0)
		(void)poll(NULL, 0, 1);
	close_pools();
	ck_assert_int_eq(kept_byte(SCRUB_PIECE_BYTES - 1), (char)0xa5);
	ck_assert_int_eq(kept_byte(bytes - 1), (char)0xa5);
	pools_close(NULL);
}
END_TEST

/* ---- after a restart ---- */

START_TEST(claim__finds_lent_ranges_only)
{
	struct extent lent[2], mine;

	kept_make();
	ck_assert_msg(open_kept(4 * MIB, POOL_PAGES_BASE, POOL_PAGES_AUTO) == 0, "%s",
		      err_text());
	/* all memory of a new file is clean at once */
	for (unsigned i = 0; i < 2; i++) {
		lent[i] = alloc_one(MIB);
		extent_fill(&lent[i], (char)('a' + i));
		ck_assert_uint_eq(extent_pool(&lent[i]).id, 7);
	}
	close_pools();
	/* the file's size is used instead of the configured size */
	ck_assert_msg(open_kept(_i ? POOL_BYTES_AUTO : MIB,
				_i ? POOL_PAGES_AUTO : POOL_PAGES_BASE,
				POOL_PAGES_BASE) == 0,
		      "%s", err_text());
	/* nothing is lent before all lent ranges are claimed */
	ck_assert_int_ne(alloc(4096, 1), 0);
	ck_assert_int_eq(pools_claim(pools, 8, lent[1].offset, MIB, &mine), -ENOENT);
	ck_assert_int_eq(pools_claim(pools, 7, 4 * MIB, MIB, &mine), -EINVAL);
	ck_assert_int_eq(pools_claim(pools, 7, 1, MIB, &mine), -EINVAL);
	/* no page is behind them */
	ck_assert_int_eq(pools_claim(pools, 7, lent[1].offset, UINT64_MAX, &mine),
			 -EINVAL);
	ck_assert_int_eq(
		pools_claim(pools, 7, lent[1].offset, UINT64_MAX - MIB + 1, &mine),
		-EINVAL);
	ck_assert_int_eq(pools_claim(pools, 7, lent[1].offset, MIB - 5, &mine), 0);
	ck_assert_uint_eq(mine.bytes, MIB);
	ck_assert_int_eq(pools_claim(pools, 7, lent[1].offset, MIB, &mine), -EEXIST);
	ck_assert_str_ne(err_text(), "");
	ck_assert_int_eq(pools_zero_unlent(pools), 0);
	ck_assert_int_eq(pools_claim(pools, 7, 3 * MIB, MIB, &mine), -ENOENT);
	/* all other memory can be lent once it is clean */
	while (alloc(3 * MIB, 2))
		(void)await_event();
	for (unsigned i = 0; i < n_allocated; i++)
		ck_assert(extent_is(&allocated[i], 0));
	mine = (struct extent){ allocated[0].pool, NULL, MIB, MIB };
	ck_assert(extent_is(&mine, 'b'));
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("pools", NULL, pools_teardown);

	tcase_add_test(tc, free__zeroes_before_the_next_grant);
	tcase_add_test(tc, free__lends_each_piece_once_it_is_clean);
	tcase_add_test(tc, free__of_a_small_extent_does_not_wait_for_a_large_one);
	tcase_add_loop_test_raise_signal(tc, free__of_what_is_not_lent_so_aborts,
					 SIGABRT, 0, 2);
	tcase_add_test(tc, free_tail__keeps_whole_pages);
	tcase_add_test(tc, scrubber__keeps_its_rate_unless_a_request_waits);
	tcase_add_test(tc, freed_memory__waits_for_pools_scrub);
	tcase_add_test(tc, alloc__fails_with_enospc_if_full_with_eagain_if_dirty);
	tcase_add_test(tc, alloc__splits_a_request_over_free_blocks);
	tcase_add_test(tc, alloc__error_text_fits_into_a_message);
	tcase_add_test(tc, alloc__limits_extents_to_what_a_device_registers);
	tcase_add_test(tc, alloc__of_too_many_extents_allocates_nothing);
	tcase_add_test(tc, alloc__rounds_up_and_aligns);
	tcase_add_test(tc, alloc__uses_several_pools);
	tcase_add_loop_test(tc, alloc__at_borders_is_right_or_refused, 0, 5);
	tcase_add_test(tc, close__does_not_wait_for_dirty_memory);
	tcase_add_loop_test(tc, claim__finds_lent_ranges_only, 0, 2);
	return unit_main();
}
