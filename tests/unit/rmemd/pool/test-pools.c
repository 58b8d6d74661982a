/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of pools is taken, given back, scrubbed, and claimed after a restart. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/rmemd/pool/pools-case.h"
#include "wire/msg.h"

static void open_one(uint64_t bytes)
{
	struct pool_params params = { .name = "a",
				      .node = POOL_NODE_ANY,
				      .bytes = bytes,
				      .pages = POOL_PAGES_BASE };

	ck_assert_msg(pools_open(&params, 1, NULL, &pools) == 0, "%s", err_text());
}

/* Until everything given back is clean. */
static void await_clean(void)
{
	struct pollfd pollfd = { .fd = pools_fd(pools), .events = POLLIN };
	struct pool_status status;

	for (;;) {
		uint64_t dirty = 0;

		for (unsigned i = 0; i < pools_count(pools); i++) {
			pools_status(pools, i, &status);
			dirty += status.scrubbing;
		}
		if (dirty == 0)
			return;
		ck_assert_int_eq(poll(&pollfd, 1, 10000), 1);
		ck_assert_uint_gt(pools_process(pools), 0);
	}
}

static void assert_zero(const struct extent *extent)
{
	const char *addr = extent_addr(extent);

	ck_assert_int_eq(addr[0], 0);
	/* every byte equals the one before it */
	ck_assert_int_eq(memcmp(addr, addr + 1, extent->bytes - 1), 0);
}

START_TEST(give__zeroes_before_the_next_grant)
{
	struct pool_status status;
	uint64_t offset;

	open_one(MIB);
	ck_assert_int_eq(take(MIB, 1), 0);
	assert_zero(&taken[0]);
	memset(extent_addr(&taken[0]), 0xa5, MIB);
	offset = taken[0].offset;
	pools_free(pools, taken[0]);
	pools_status(pools, 0, &status);
	ck_assert_uint_eq(status.lent, 0);
	ck_assert_uint_eq(status.scrubbing, MIB);
	ck_assert_uint_eq(status.free, 0);
	/* nothing comes back but by process() */
	ck_assert_int_eq(take(4096, 1), -EAGAIN);
	await_clean();
	ck_assert_int_eq(take(MIB, 1), 0);
	ck_assert_uint_eq(taken[0].offset, offset);
	assert_zero(&taken[0]);
	pools_status(pools, 0, &status);
	ck_assert_uint_eq(status.scrubbed_ever, MIB);
	ck_assert_uint_eq(status.lent, MIB);
	pools_close(pools);
}
END_TEST

START_TEST(give_tail__keeps_whole_pages)
{
	struct pool_status status;
	struct extent extent;

	open_one(MIB);
	ck_assert_int_eq(take(MIB, 1), 0);
	extent = taken[0];
	memset(extent_addr(&extent), 0xa5, MIB);
	ck_assert_uint_eq(pools_free_tail(pools, &extent, MIB - 4095), 0);
	ck_assert_uint_eq(extent.bytes, MIB);
	ck_assert_uint_eq(pools_free_tail(pools, &extent, 4097), MIB - 8192);
	ck_assert_uint_eq(extent.bytes, 8192);
	pools_status(pools, 0, &status);
	ck_assert_uint_eq(status.lent, 8192);
	await_clean();
	/* what is behind is clean and lent anew, what was kept is untouched */
	ck_assert_int_eq(take(MIB - 8192, 1), 0);
	assert_zero(&taken[0]);
	ck_assert_int_eq(((const char *)extent_addr(&extent))[8191], (char)0xa5);
	pools_free(pools, extent);
	pools_free(pools, taken[0]);
	await_clean();
	ck_assert_int_eq(take(MIB, 1), 0);
	pools_close(pools);
}
END_TEST

/* Whether more comes back while the rate leaves the scrubber no time. */
static bool comes_back(void)
{
	struct pollfd pollfd = { .fd = pools_fd(pools), .events = POLLIN };

	return poll(&pollfd, 1, 50) > 0;
}

static void give_quarters(void)
{
	struct extent quarters[4];

	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(take(MIB, 1), 0);
		quarters[i] = taken[0];
		memset(extent_addr(&quarters[i]), 0xa5, MIB);
	}
	for (unsigned i = 0; i < 4; i++)
		pools_free(pools, quarters[i]);
}

START_TEST(scrubber__keeps_to_its_rate_unless_somebody_waits)
{
	open_one(4 * MIB);
	pools_set_scrub_rate(pools, 1);
	give_quarters();
	/* the first waits for nothing */
	while (pools_process(pools) == 0)
		(void)comes_back();
	ck_assert(!comes_back());
	pools_hurry(pools, true);
	await_clean();
	ck_assert_int_eq(take(4 * MIB, 1), 0);
	assert_zero(&taken[0]);
	pools_free(pools, taken[0]);
	await_clean();
	/* what was done in a hurry is not made up for */
	pools_hurry(pools, false);
	pools_set_scrub_rate(pools, PIB);
	give_quarters();
	await_clean();
	/* a rate that changes counts at once */
	pools_set_scrub_rate(pools, 1);
	give_quarters();
	ck_assert(!comes_back());
	pools_set_scrub_rate(pools, 0);
	await_clean();
	/* and nobody waits for one who rests */
	pools_set_scrub_rate(pools, 1);
	give_quarters();
	ck_assert(!comes_back());
	pools_close(pools);
}
END_TEST

static void on_freed(void *ctx)
{
	(*(unsigned *)ctx)++;
}

START_TEST(give__waits_until_it_is_told)
{
	unsigned given = 0;

	open_one(4 * MIB);
	pools_on_freed(pools, on_freed, &given);
	give_quarters();
	ck_assert_uint_eq(given, 1);
	ck_assert(!comes_back());
	pools_scrub(pools);
	await_clean();
	/* there is something again */
	give_quarters();
	ck_assert_uint_eq(given, 2);
	ck_assert(!comes_back());
	/* somebody waits for it */
	pools_hurry(pools, true);
	await_clean();
	pools_hurry(pools, false);
	give_quarters();
	ck_assert_uint_eq(given, 3);
	pools_on_freed(pools, NULL, NULL);
	await_clean();
	give_quarters();
	await_clean();
	ck_assert_uint_eq(given, 3);
	pools_on_freed(pools, on_freed, &given);
	give_quarters();
	/* nor does the end wait for it */
	pools_close(pools);
}
END_TEST

START_TEST(take__tells_full_from_not_yet_clean)
{
	struct extent half;

	open_one(MIB);
	ck_assert_int_eq(take(MIB + 1, EXTENTS_MAX), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "the pools have 1 MiB in all"));
	ck_assert_int_eq(take(UINT64_MAX, EXTENTS_MAX), -ENOSPC);
	ck_assert_int_eq(take(MIB / 2, 1), 0);
	half = taken[0];
	ck_assert_int_eq(take(MIB, 1), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "512 KiB are free"));
	pools_free(pools, half);
	ck_assert_int_eq(take(MIB, 1), -EAGAIN);
	ck_assert_int_eq(take(MIB + 1, EXTENTS_MAX), -ENOSPC);
	await_clean();
	ck_assert_int_eq(take(MIB, 1), 0);
	pools_close(pools);
}
END_TEST

START_TEST(take__makes_several_of_what_is_scattered)
{
	struct extent pieces[8];
	uint64_t sum = 0;

	open_one(MIB);
	for (unsigned i = 0; i < 8; i++) {
		ck_assert_int_eq(take(128 * KIB, 1), 0);
		pieces[i] = taken[0];
	}
	for (unsigned i = 0; i < 8; i += 2)
		pools_free(pools, pieces[i]);
	/* dirty as they are they could not hold it in 3 */
	ck_assert_int_eq(take(512 * KIB, 3), -ENOSPC);
	await_clean();
	ck_assert_int_eq(take(512 * KIB, 3), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "the largest piece is 128 KiB"));
	n_taken = 77;
	ck_assert_int_eq(take(300 * KIB, 2), -ENOSPC);
	ck_assert_uint_eq(n_taken, 77);
	/* a refusal has taken nothing */
	ck_assert_int_eq(take(300 * KIB, EXTENTS_MAX), 0);
	ck_assert_uint_eq(n_taken, 3);
	for (unsigned i = 0; i < n_taken; i++) {
		sum += taken[i].bytes;
		assert_zero(&taken[i]);
	}
	ck_assert_uint_eq(sum, 300 * KIB);
	ck_assert_uint_eq(taken[2].bytes, 44 * KIB);
	pools_close(pools);
}
END_TEST

START_TEST(take__says_why_in_what_the_wire_carries)
{
	const char *text;

	open_one(MIB);
	ck_assert_int_eq(take(1000 * KIB + 1, 1), 0);
	ck_assert_int_eq(take(MIB, EXTENTS_MAX), -ENOSPC);
	text = err_text();
	/* the four numbers may be longer on a larger host */
	ck_assert_uint_lt(strlen(text) + 4 * strlen("1023.99 TiB"), WIRE_NAME_MAX);
	ck_assert_ptr_nonnull(strstr(text, "ask for less"));
	pools_close(pools);
}
END_TEST

START_TEST(take__keeps_to_what_a_device_registers)
{
	struct extent pieces[16];
	unsigned n;

	open_one(MIB);
	/* 17 pages are 68 KiB; aligned, 64 */
	pools_set_extent_max(pools, 69 * KIB);
	ck_assert_int_eq(take_into(MIB, 64 * KIB, POOL_NODE_ANY, pieces, 15, &n),
			 -ENOSPC);
	ck_assert_str_eq(err_text(),
			 "no room for 1 MiB: an RDMA device here registers 64 KiB at "
			 "once, and a lease takes at most 15 pieces; ask for less");
	ck_assert_int_eq(take_into(MIB, 64 * KIB, POOL_NODE_ANY, pieces, 16, &n), 0);
	ck_assert_uint_eq(n, 16);
	for (unsigned i = 0; i < n; i++) {
		ck_assert_uint_eq(pieces[i].bytes, 64 * KIB);
		ck_assert_uint_eq(pieces[i].offset, i * 64 * KIB);
	}
	/* each is given back by itself; dirty as they are they would do in 8, not in 7 */
	for (unsigned i = 0; i < n; i++)
		pools_free(pools, pieces[i]);
	ck_assert_int_eq(take(8 * 68 * KIB, 8), -EAGAIN);
	ck_assert_int_eq(take(7 * 68 * KIB + 1, 7), -ENOSPC);
	await_clean();
	ck_assert_int_eq(take(2 * 68 * KIB + 1, 3), 0);
	ck_assert_uint_eq(n_taken, 3);
	ck_assert_uint_eq(taken[1].bytes, 68 * KIB);
	ck_assert_uint_eq(taken[2].bytes, 4 * KIB);
	/* none is in the way of the others, and there is one piece in the end */
	for (unsigned i = 0; i < n_taken; i++)
		pools_free(pools, taken[i]);
	await_clean();
	pools_set_extent_max(pools, 0);
	ck_assert_int_eq(take(MIB, 1), 0);
	pools_close(pools);
}
END_TEST

/* What is scattered and too long as well may come to too many pieces. */
START_TEST(take__that_comes_to_too_many_pieces_takes_nothing)
{
	struct extent pieces[4];
	struct pool_status status;

	open_one(MIB);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(take(256 * KIB, 1), 0);
		pieces[i] = taken[0];
	}
	pools_free(pools, pieces[0]);
	pools_free(pools, pieces[2]);
	await_clean();
	pools_set_extent_max(pools, 200 * KIB);
	/* 200 and 56 of each */
	ck_assert_int_eq(take(512 * KIB, 3), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err_text(), "512 KiB are free"));
	pools_status(pools, 0, &status);
	ck_assert_uint_eq(status.free, 512 * KIB);
	ck_assert_uint_eq(status.largest_free, 256 * KIB);
	ck_assert_int_eq(take(512 * KIB, 4), 0);
	ck_assert_uint_eq(n_taken, 4);
	pools_close(pools);
}
END_TEST

START_TEST(take__rounds_up_and_aligns)
{
	open_one(MIB);
	ck_assert_int_eq(take(1, 1), 0);
	ck_assert_uint_eq(taken[0].bytes, 4096);
	ck_assert_int_eq(take_into(5000, 256 * KIB, POOL_NODE_ANY, taken, 1, &n_taken),
			 0);
	ck_assert_uint_eq(taken[0].bytes, 8192);
	ck_assert_uint_eq(taken[0].offset % (256 * KIB), 0);
	ck_assert_uint_eq(extent_page_bytes(&taken[0]), 4096);
	pools_close(pools);
}
END_TEST

START_TEST(take__spreads_over_pools_and_joins_them)
{
	const struct pool_params params[] = {
		{ .name = "a", .node = -1, .bytes = MIB, .pages = POOL_PAGES_BASE },
		{ .name = "b", .node = -1, .bytes = MIB, .pages = POOL_PAGES_BASE },
	};
	struct pool_status status;
	struct pool *first;

	ck_assert_int_eq(pools_open(params, 2, NULL, &pools), 0);
	ck_assert_uint_eq(pools_count(pools), 2);
	ck_assert_int_eq(take(4096, 1), 0);
	first = taken[0].pool;
	ck_assert_int_eq(take(4096, 1), 0);
	ck_assert_ptr_ne(taken[0].pool, first);
	ck_assert_int_eq(take(3 * MIB / 2, 1), -ENOSPC);
	ck_assert_int_eq(take(3 * MIB / 2, 2), 0);
	ck_assert_uint_eq(n_taken, 2);
	ck_assert_ptr_ne(taken[0].pool, taken[1].pool);
	/* the contents of both come back zeroed */
	for (unsigned i = 0; i < 2; i++) {
		memset(extent_addr(&taken[i]), 1, taken[i].bytes);
		pools_free(pools, taken[i]);
	}
	await_clean();
	pools_status(pools, 1, &status);
	ck_assert_str_eq(status.name, "b");
	ck_assert_uint_eq(status.free, MIB - 4096);
	pools_close(pools);
}
END_TEST

START_TEST(close__does_not_wait_for_dirty_memory)
{
	open_one(64 * MIB);
	ck_assert_int_eq(take(64 * MIB, 1), 0);
	pools_free(pools, taken[0]);
	pools_close(pools);
	pools_close(NULL);
}
END_TEST

/* ---- after a restart ---- */

static bool all_are(const char *addr, uint64_t bytes, char value)
{
	for (uint64_t i = 0; i < bytes; i++)
		if (addr[i] != value)
			return false;
	return true;
}

START_TEST(claim__finds_what_was_lent_and_nothing_else)
{
	struct extent extents[2], mine;
	unsigned n;

	kept_make(0);
	ck_assert_msg(open_kept(4 * MIB, POOL_PAGES_BASE, POOL_PAGES_AUTO) == 0, "%s",
		      err_text());
	/* a new file: all of it is clean at once */
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(take_into(MIB, 1, -1, &extents[i], 1, &n), 0);
		memset(extent_addr(&extents[i]), 'a' + (int)i, MIB);
		ck_assert_uint_eq(extent_pool_id(&extents[i]), 7);
	}
	pools_close(pools);
	/* another size is asked for, but what is there is there */
	ck_assert_msg(open_kept(_i ? POOL_BYTES_AUTO : MIB,
				_i ? POOL_PAGES_AUTO : POOL_PAGES_BASE,
				POOL_PAGES_BASE) == 0,
		      "%s", err_text());
	/* nothing is lent before what was is known */
	ck_assert_int_ne(take_into(4096, 1, -1, &mine, 1, &n), 0);
	ck_assert_int_eq(pools_claim(pools, 8, extents[1].offset, MIB, &mine), -ENOENT);
	ck_assert_int_eq(pools_claim(pools, 7, 4 * MIB, MIB, &mine), -EINVAL);
	ck_assert_int_eq(pools_claim(pools, 7, 1, MIB, &mine), -EINVAL);
	ck_assert_int_eq(pools_claim(pools, 7, extents[1].offset, MIB - 5, &mine), 0);
	ck_assert_uint_eq(mine.bytes, MIB);
	ck_assert_int_eq(pools_claim(pools, 7, extents[1].offset, MIB, &mine), -EINVAL);
	ck_assert_str_ne(err_text(), "");
	ck_assert_int_eq(pools_settle(pools), 0);
	ck_assert_int_eq(pools_claim(pools, 7, 3 * MIB, MIB, &mine), -ENOENT);
	/* the rest is there once it is clean, and clean it is */
	while (take_into(3 * MIB, 1, -1, extents, 2, &n)) {
		struct pollfd fd = { .fd = pools_fd(pools), .events = POLLIN };

		ck_assert_int_eq(poll(&fd, 1, 10000), 1);
		(void)pools_process(pools);
	}
	for (unsigned i = 0; i < n; i++)
		ck_assert(all_are(extent_addr(&extents[i]), extents[i].bytes, 0));
	mine = (struct extent){ .pool = extents[0].pool, .offset = MIB };
	ck_assert(all_are(extent_addr(&mine), MIB, 'b'));
	pools_close(pools);
	(void)close(kept_fd);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pools");
	TCase *tc = tcase_create("pools");

	tcase_add_test(tc, give__zeroes_before_the_next_grant);
	tcase_add_test(tc, give_tail__keeps_whole_pages);
	tcase_add_test(tc, scrubber__keeps_to_its_rate_unless_somebody_waits);
	tcase_add_test(tc, give__waits_until_it_is_told);
	tcase_add_test(tc, take__tells_full_from_not_yet_clean);
	tcase_add_test(tc, take__makes_several_of_what_is_scattered);
	tcase_add_test(tc, take__says_why_in_what_the_wire_carries);
	tcase_add_test(tc, take__keeps_to_what_a_device_registers);
	tcase_add_test(tc, take__that_comes_to_too_many_pieces_takes_nothing);
	tcase_add_test(tc, take__rounds_up_and_aligns);
	tcase_add_test(tc, take__spreads_over_pools_and_joins_them);
	tcase_add_test(tc, close__does_not_wait_for_dirty_memory);
	tcase_add_loop_test(tc, claim__finds_what_was_lent_and_nothing_else, 0, 2);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
