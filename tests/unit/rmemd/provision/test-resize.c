/* SPDX-License-Identifier: BSD-3-Clause */
/* Resizing pools to their configured size. */
#include <errno.h>
#include <string.h>

#include "unit/rmemd/provision/resize-case.h"
#include "unit/unit.h"

START_TEST(grow__is_recorded_in_the_ledger)
{
	reload(128 * MIB);
	ck_assert_int_eq(fake.status.resizing, POOL_GROWS);
	finish(0, 128 * MIB);
	assert_logged("pool-grown: it has 128 MiB now");
	assert_recorded(128 * MIB);
	assert_rests(128 * MIB);
}
END_TEST

START_TEST(grow__needs_space_in_the_ledger)
{
	record.err = -ENOSPC;
	reload(128 * MIB);
	ck_assert_uint_eq(fake.n_grown, 0);
	assert_logged("pool-not-grown: it stays at 64 MiB: the ledger is full");
	assert_rests(64 * MIB);
}
END_TEST

START_TEST(failed_grow__is_not_repeated)
{
	fake.grow_err = _i ? -EMFILE : 0;
	reload(128 * MIB);
	if (!_i)
		finish(-ENOMEM, 64 * MIB);
	assert_logged(_i ? "pool-not-grown: it stays at 64 MiB: no thread"
			 : "pool-not-grown: it stays at 64 MiB: because");
	assert_recorded(64 * MIB);
	assert_rests(64 * MIB);
	/* what the next reload compares the file with */
	ck_assert_uint_eq(resizes_bytes(resizes, 0), 64 * MIB);
	reload(128 * MIB);
	ck_assert_uint_eq(resizes_bytes(resizes, 0), (_i ? 64 : 128) * MIB);
}
END_TEST

/* A size that is no number of pages is no other size than the pool has. */
START_TEST(size_in_force__is_as_it_is_written)
{
	reload(128 * MIB - 1);
	ck_assert_uint_eq(resizes_bytes(resizes, 0), 128 * MIB - 1);
	finish(0, 128 * MIB);
	ck_assert_uint_eq(resizes_bytes(resizes, 0), 128 * MIB - 1);
}
END_TEST

START_TEST(stopped_grow__continues_after_a_reload)
{
	reload(128 * MIB);
	reload(64 * MIB);
	ck_assert(fake.stopped);
	reload(128 * MIB);
	finish(-ECANCELED, 64 * MIB);
	ck_assert_int_eq(fake.status.resizing, POOL_GROWS);
	ck_assert_uint_eq(fake.n_grown, 2);
	ck_assert(!fake.stopped);
	assert_logged("pool-growing: from 64 MiB to 128 MiB");
	reload(64 * MIB);
	finish(-ECANCELED, 64 * MIB);
	ck_assert_uint_eq(fake.n_grown, 2);
	ck_assert_uint_eq(record.grown, 0);
	assert_rests(64 * MIB);
}
END_TEST

/* If a process ended while a pool grew, the next one does not grow it to this size or more. */
START_TEST(grow__that_ended_a_process_waits_for_a_reload)
{
	static const uint64_t sizes[] = { 128 * MIB, 256 * MIB };

	fake.params.bytes_grown = 128 * MIB;
	resizes_close(resizes);
	open_resizes();
	reload(sizes[_i]);
	ck_assert_uint_eq(fake.n_grown, 0);
	assert_logged(
		"pool-not-grown: it stays at 64 MiB: the last process ended while "
		"it made it 128 MiB; reload to try again");
	assert_rests(64 * MIB);
	reload(sizes[_i]);
	ck_assert_uint_eq(fake.n_grown, 1);
	/* an orderly end is not taken for a failed growth */
	resizes_close(resizes);
	assert_recorded(64 * MIB);
	fake_rest();
	fake.params.bytes_grown = 128 * MIB;
	open_resizes();
	reload(96 * MIB);
	ck_assert_uint_eq(fake.n_grown, 2);
	finish(0, 96 * MIB);
}
END_TEST

START_TEST(shrink__waits_for_a_free_end)
{
	reload(32 * MIB);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(resizes_next_ms(resizes), now_ms + WAIT_MS);
	free_closed_end();
	ck_assert_int_eq(fake.status.resizing, POOL_SHRINKS);
	finish(0, 32 * MIB);
	assert_logged("pool-shrunk: it has 32 MiB now");
	ck_assert_uint_eq(record.bytes, 32 * MIB);
	assert_rests(32 * MIB);
}
END_TEST

START_TEST(shrink__is_refused_if_leases_are_in_the_way)
{
	fake.leased = true;
	reload(32 * MIB);
	advance(WAIT_MS - 1);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	advance(1);
	assert_logged("pool-not-shrunk: it stays at 64 MiB: in the way are still 1 "
		      "lease; have "
		      "them freed and reload, or say shrink = revoke");
	assert_rests(64 * MIB);
	reload(32 * MIB);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(resizes_next_ms(resizes), now_ms + WAIT_MS);
}
END_TEST

static void assert_goes_on(enum pool_resizing state)
{
	ck_assert_int_eq(fake.status.resizing, state);
	ck_assert_uint_eq(resizes_next_ms(resizes), 0);
}

/* Long work is done in parts, one in each turn. */
START_TEST(shrink__of_many_blocks_and_leases_takes_turns)
{
	const uint64_t deadline_ms = now_ms + WAIT_MS;

	fake.leased = true;
	fake.n_steps = 2;
	fake.n_searches = 1;
	reload(32 * MIB);
	assert_goes_on(POOL_CLOSES);
	advance(0);
	assert_goes_on(POOL_CLOSES);
	ck_assert_str_eq(logged[0], "");
	advance(1);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(resizes_next_ms(resizes), deadline_ms);
	advance(WAIT_MS);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_le(resizes_next_ms(resizes), now_ms);
	fake.n_steps = 1;
	advance(0);
	assert_goes_on(POOL_REOPENS);
	ck_assert(resizes_work(resizes));
	assert_rests(64 * MIB);
	/* nothing is in the way */
	reload(32 * MIB);
	fake.n_steps = 1;
	free_closed_end();
	assert_goes_on(POOL_CUTS);
	advance(0);
	ck_assert_int_eq(fake.status.resizing, POOL_SHRINKS);
	ck_assert_uint_eq(resizes_next_ms(resizes), UINT64_MAX);
	finish(0, 32 * MIB);
	assert_rests(32 * MIB);
}
END_TEST

/* The size changes before the end is closed. */
START_TEST(reload__reopens_an_end_that_is_half_closed)
{
	fake.n_steps = 1;
	reload(32 * MIB);
	assert_goes_on(POOL_CLOSES);
	fake.n_steps = 1;
	reload(16 * MIB);
	assert_goes_on(POOL_REOPENS);
	advance(0);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(fake.status.bytes_to, 16 * MIB);
	free_closed_end();
	finish(0, 16 * MIB);
	assert_rests(16 * MIB);
}
END_TEST

/* The memory is being zeroed, or keys are not dead yet; no lease is in the way. */
START_TEST(shrink__waits_for_memory_without_leases)
{
	config.pools[0].shrink = _i ? POOL_SHRINK_REVOKE : POOL_SHRINK_REFUSE;
	reload(32 * MIB);
	advance(2 * WAIT_MS);
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(resizes_next_ms(resizes), UINT64_MAX);
	ck_assert_ptr_nonnull(strstr(logged[0], "pool-shrinking: "));
	free_closed_end();
	finish(0, 32 * MIB);
	assert_rests(32 * MIB);
}
END_TEST

START_TEST(shrink__revokes_leases)
{
	fake.leased = true;
	config.pools[0].shrink = POOL_SHRINK_REVOKE;
	reload(32 * MIB);
	advance(WAIT_MS);
	assert_logged("pool-revokes: in the way are still 1 lease");
	ck_assert_int_eq(fake.status.resizing, POOL_RECLAIMS);
	ck_assert_uint_eq(resizes_next_ms(resizes), UINT64_MAX);
}
END_TEST

static void assert_growing(uint64_t done, uint64_t bytes)
{
	uint64_t is_done = 0, is_bytes = 0;

	ck_assert_int_eq(resizes_growing(resizes, &is_done, &is_bytes), bytes > 0);
	ck_assert_uint_eq(is_done, done);
	ck_assert_uint_eq(is_bytes, bytes);
}

/* The sum of two pools; one is complete before the other. */
START_TEST(grow__reports_its_progress)
{
	config.pools[config.n_pools++] = other_params;
	const struct pool_status rests = { .bytes = 100 * MIB, .bytes_to = 100 * MIB };

	resizes_close(resizes);
	n_pools = 2;
	other = rests;
	open_resizes();
	assert_growing(0, 0);
	reload(128 * MIB);
	assert_growing(0, 64 * MIB);
	fake.status.populated = 10 * MIB;
	other = (struct pool_status){ .bytes = 70 * MIB,
				      .bytes_to = 100 * MIB,
				      .populated = 5 * MIB,
				      .resizing = POOL_GROWS };
	assert_growing(15 * MIB, 94 * MIB);
	finish(0, 128 * MIB);
	assert_growing(69 * MIB, 94 * MIB);
	/* a further growth is added to the sum */
	fake.status.populated = 0;
	reload(148 * MIB);
	assert_growing(69 * MIB, 114 * MIB);
	/* a failed growth is not in the sum */
	finish(-ENOMEM, 128 * MIB);
	assert_growing(69 * MIB, 94 * MIB);
	other = rests;
	assert_growing(0, 0);
	/* the next sum starts at 0 */
	reload(158 * MIB);
	assert_growing(0, 30 * MIB);
	finish(0, 158 * MIB);
	assert_growing(0, 0);
}
END_TEST

/* Each growth has its own time, also if its progress was not read. */
START_TEST(grow__has_its_own_time)
{
	reload(128 * MIB);
	resizes_log_growth(resizes, 0, 64 * MIB);
	now_ms += 6000;
	resizes_log_growth(resizes, 32 * MIB, 64 * MIB);
	assert_logged("pools-populating: 32 MiB of 64 MiB after 6 s");
	finish(0, 128 * MIB);
	reload(192 * MIB);
	resizes_log_growth(resizes, 40 * MIB, 64 * MIB);
	now_ms += 7000;
	resizes_log_growth(resizes, 50 * MIB, 64 * MIB);
	assert_logged("pools-populating: 50 MiB of 64 MiB after 7 s");
	finish(0, 192 * MIB);
}
END_TEST

START_TEST(shrink__that_cannot_start_is_not_repeated)
{
	fake.reclaim_err = -EMFILE;
	reload(32 * MIB);
	assert_logged("pool-not-shrunk: it stays at 64 MiB: no thread");
	assert_rests(64 * MIB);
}
END_TEST

START_TEST(reload__logs_pools_that_keep_their_size)
{
	config.pools[0].node = 1;
	reload(64 * MIB);
	/* this was logged when the pool was opened */
	ck_assert_str_eq(logged[0], "");
	reload(64 * MIB);
	ck_assert_str_eq(logged[0], "");
	reload(128 * MIB);
	assert_logged(
		"pool-stays: it stays at 64 MiB, too, as its node or page_size is "
		"configured otherwise");
	assert_rests(64 * MIB);
	config.pools[0].node = POOL_NODE_ANY;
	reload(64 * MIB);
}
END_TEST

/* What only a restart changes stays in force: _i says what. */
START_TEST(reload__keeps_what_needs_a_restart)
{
	struct pool_params *params = &config.pools[0], before;

	switch (_i) {
	case 0:
		params->pages = POOL_PAGES_2M;
		break;
	case 1:
		(void)strcpy(params->devices[0], "able0");
		params->n_devices = 1;
		break;
	case 2:
		params->bytes = POOL_BYTES_AUTO;
		break;
	default:
		fake.params.bytes = params->bytes = POOL_BYTES_AUTO;
		fake.params.share = 20;
		params->share = 30;
		break;
	}
	before = fake.params;
	resizes_configure(resizes, &config);
	(void)resizes_work(resizes);
	assert_rests(64 * MIB);
	ck_assert_uint_eq(fake.params.bytes, before.bytes);
	ck_assert_uint_eq(fake.params.share, before.share);
	ck_assert_int_eq(fake.params.pages, before.pages);
	ck_assert_uint_eq(fake.params.n_devices, before.n_devices);
}
END_TEST

/* How a pool of an automatic size is removed, and a fixed size instead of it. */
START_TEST(reload__changes_an_automatic_pool)
{
	struct pool_params *params = &config.pools[0];

	fake.params.bytes = params->bytes = POOL_BYTES_AUTO;
	fake.params.share = params->share = 20;
	params->shrink = POOL_SHRINK_REVOKE;
	params->shrink_wait_ms = 7;
	resizes_configure(resizes, &config);
	ck_assert_int_eq(fake.params.shrink, POOL_SHRINK_REVOKE);
	ck_assert_uint_eq(fake.params.shrink_wait_ms, 7);
	ck_assert_uint_eq(fake.params.share, 20);
	(void)resizes_work(resizes);
	assert_rests(64 * MIB);
	params->share = POOL_SHARE_AUTO;
	params->bytes = 64 * MIB;
	resizes_configure(resizes, &config);
	ck_assert_uint_eq(fake.params.bytes, 64 * MIB);
	ck_assert_uint_eq(fake.params.share, POOL_SHARE_AUTO);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("resizes", setup, teardown);

	tcase_add_test(tc, grow__is_recorded_in_the_ledger);
	tcase_add_test(tc, grow__needs_space_in_the_ledger);
	tcase_add_loop_test(tc, failed_grow__is_not_repeated, 0, 2);
	tcase_add_test(tc, size_in_force__is_as_it_is_written);
	tcase_add_test(tc, stopped_grow__continues_after_a_reload);
	tcase_add_loop_test(tc, grow__that_ended_a_process_waits_for_a_reload, 0, 2);
	tcase_add_test(tc, grow__reports_its_progress);
	tcase_add_test(tc, grow__has_its_own_time);
	tcase_add_test(tc, shrink__waits_for_a_free_end);
	tcase_add_test(tc, shrink__is_refused_if_leases_are_in_the_way);
	tcase_add_test(tc, shrink__of_many_blocks_and_leases_takes_turns);
	tcase_add_test(tc, reload__reopens_an_end_that_is_half_closed);
	tcase_add_loop_test(tc, shrink__waits_for_memory_without_leases, 0, 2);
	tcase_add_test(tc, shrink__revokes_leases);
	tcase_add_test(tc, shrink__that_cannot_start_is_not_repeated);
	tcase_add_test(tc, reload__logs_pools_that_keep_their_size);
	tcase_add_test(tc, reload__changes_an_automatic_pool);
	tcase_add_loop_test(tc, reload__keeps_what_needs_a_restart, 0, 4);
	return unit_main();
}
