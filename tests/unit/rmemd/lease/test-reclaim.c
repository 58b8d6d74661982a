/* SPDX-License-Identifier: BSD-3-Clause */
/* What pools want back: who is told, when, and what becomes of leases that stay in the way. */
#include <errno.h>
#include <string.h>

#include "unit/rmemd/lease-stage.h"
#include "unit/unit.h"

static struct asked one, two;

/* Until all leases were looked at. */
static void sweep(void)
{
	leases_reclaim(stage_leases);
	ck_assert_uint_eq(leases_next_ms(stage_leases), 0);
	while (leases_next_ms(stage_leases) == 0) {
		leases_tick(stage_leases);
		fake_fabric_settle();
	}
}

static void reclaim(unsigned pages, bool revoke)
{
	fake_pools_reclaim(pages, stage_now_ms + 500, revoke);
	sweep();
}

static void assert_told(unsigned n, const struct lease_client *client, uint64_t lease,
			uint64_t bytes)
{
	ck_assert_uint_eq(stage_wanted.n, n);
	ck_assert_ptr_eq(stage_wanted.client, client);
	ck_assert_uint_eq(stage_wanted.lease, lease);
	ck_assert_uint_eq(stage_wanted_last.bytes, bytes);
}

START_TEST(reclaim__tells_those_who_are_in_the_way)
{
	uint64_t low, high;

	ck_assert_int_eq(granted(&one, &stage_a, 60 * FAKE_PAGE, ""), 0);
	low = one.lease.lease;
	ck_assert_int_eq(granted(&one, &stage_a, 20 * FAKE_PAGE, "high"), 0);
	high = one.lease.lease;
	ck_assert_uint_lt(low, high);
	/* it is in the last of 128 pages by half: from 60 to 80 */
	reclaim(128 - 70, false);
	assert_told(1, &stage_a, high, 10 * FAKE_PAGE);
	ck_assert_uint_eq(stage_wanted_last.wait_ms, 500);
	ck_assert(!stage_wanted_last.revoke);
	/* another client that attaches it is told, too, once it has its keys */
	ck_assert_int_eq(attached(&two, &stage_b, "high", WIRE_RIGHT_READ), 0);
	assert_told(2, &stage_b, high, 10 * FAKE_PAGE);
	/* nothing new: nobody is told */
	ck_assert_int_eq(rekeyed(&two, &stage_b, high), 0);
	ck_assert_uint_eq(stage_wanted.n, 2);
	/* another deadline is news to both */
	reclaim(128 - 70, true);
	ck_assert_uint_eq(stage_wanted.n, 4);
	ck_assert(stage_wanted_last.revoke);
	/* and that it is over */
	reclaim(0, false);
	assert_told(6, &stage_b, high, 0);
	reclaim(0, false);
	ck_assert_uint_eq(stage_wanted.n, 6);
	ck_assert_uint_eq(stage_revoked.n, 0);
}
END_TEST

START_TEST(reclaim__follows_what_is_given_back)
{
	uint64_t id;

	ck_assert_int_eq(granted(&one, &stage_a, 100 * FAKE_PAGE, "n"), 0);
	id = one.lease.lease;
	ck_assert_int_eq(attached(&two, &stage_b, "n", WIRE_RIGHT_READ), 0);
	reclaim(128 - 40, false);
	ck_assert_uint_eq(stage_wanted.n, 2);
	ck_assert_uint_eq(stage_wanted_last.bytes, 60 * FAKE_PAGE);
	ck_assert_int_eq(resized(&one, &stage_a, id, 50 * FAKE_PAGE), 0);
	ck_assert_uint_eq(stage_wanted.n, 4);
	ck_assert_uint_eq(stage_wanted_last.bytes, 10 * FAKE_PAGE);
	ck_assert_int_eq(resized(&one, &stage_a, id, 30 * FAKE_PAGE), 0);
	ck_assert_uint_eq(stage_wanted.n, 6);
	ck_assert_uint_eq(stage_wanted_last.bytes, 0);
	/* what ends needs no word */
	ck_assert_int_eq(freed(&stage_a, id), 0);
	ck_assert_uint_eq(stage_wanted.n, 6);
}
END_TEST

START_TEST(reclaim__is_told_again_to_who_comes_back)
{
	uint64_t id;

	ck_assert_int_eq(granted(&one, &stage_a, 100 * FAKE_PAGE, ""), 0);
	id = one.lease.lease;
	stage_fence(&stage_a);
	reclaim(128 - 40, false);
	ck_assert_uint_eq(stage_wanted.n, 0);
	stage_connect(&stage_a, 0);
	ck_assert_int_eq(rekeyed(&one, &stage_a, id), 0);
	assert_told(1, &stage_a, id, 60 * FAKE_PAGE);
	stage_fence(&stage_a);
	fake_fabric_settle();
	stage_connect(&stage_a, 0);
	ck_assert_int_eq(rekeyed(&one, &stage_a, id), 0);
	assert_told(2, &stage_a, id, 60 * FAKE_PAGE);
	/* a client that was away at the end is not told of what it does not know */
	stage_fence(&stage_a);
	reclaim(0, false);
	stage_connect(&stage_a, 0);
	ck_assert_int_eq(rekeyed(&one, &stage_a, id), 0);
	ck_assert_uint_eq(stage_wanted.n, 2);
}
END_TEST

/* New keys take their time, and what was told has changed. */
START_TEST(reclaim__is_told_while_keys_are_pending)
{
	const uint64_t bytes = 100 * FAKE_PAGE;
	uint64_t id;

	ck_assert_int_eq(granted(&one, &stage_a, bytes - 10, ""), 0);
	id = one.lease.lease;
	reclaim(128 - 40, false);
	assert_told(1, &stage_a, id, 60 * FAKE_PAGE);
	ck_assert_int_eq(lease_resize(stage_leases, &stage_a, id, bytes, ask(&two)), 0);
	ck_assert_uint_eq(two.answers, 0);
	fake_pools_reclaim(_i ? 0 : 128 - 40, stage_now_ms + 500, true);
	leases_reclaim(stage_leases);
	while (leases_next_ms(stage_leases) == 0)
		leases_tick(stage_leases);
	fake_fabric_settle();
	ck_assert_int_eq(two.err, 0);
	assert_told(2, &stage_a, id, _i ? 0 : 60 * FAKE_PAGE);
	ck_assert(_i || stage_wanted_last.revoke);
}
END_TEST

/* It is told of once, as it is then. */
START_TEST(reclaim__waits_for_who_takes_nothing)
{
	uint64_t id, other;

	ck_assert_int_eq(granted(&one, &stage_a, 100 * FAKE_PAGE, "n"), 0);
	id = one.lease.lease;
	ck_assert_int_eq(granted(&one, &stage_a, 10 * FAKE_PAGE, ""), 0);
	other = one.lease.lease;
	stage_busy = true;
	reclaim(128 - 40, false);
	reclaim(128 - 50, true);
	ck_assert_uint_eq(stage_wanted.n, 0);
	/* what ends, or is not wanted any more, is not told of */
	ck_assert_int_eq(freed(&stage_a, other), 0);
	stage_now_ms += 100;
	stage_take(&stage_a);
	assert_told(1, &stage_a, id, 50 * FAKE_PAGE);
	ck_assert_uint_eq(stage_wanted_last.wait_ms, 400);
	ck_assert_uint_eq(stage_wanted_last.revoke, 1);
	stage_take(&stage_a);
	ck_assert_uint_eq(stage_wanted.n, 1);
	/* that it is over is told when nothing else is wanted back */
	stage_busy = true;
	reclaim(0, false);
	stage_take(&stage_a);
	assert_told(2, &stage_a, id, 0);
	stage_busy = true;
	reclaim(128 - 40, false);
	reclaim(0, false);
	stage_take(&stage_a);
	ck_assert_uint_eq(stage_wanted.n, 2);
	/* a client that comes back is told with its keys, and once */
	stage_busy = true;
	reclaim(128 - 40, false);
	stage_fence(&stage_a);
	stage_take(&stage_a);
	ck_assert_uint_eq(stage_wanted.n, 2);
	stage_connect(&stage_a, 0);
	ck_assert_int_eq(rekeyed(&one, &stage_a, id), 0);
	assert_told(3, &stage_a, id, 60 * FAKE_PAGE);
}
END_TEST

START_TEST(reclaim__revokes_what_is_due_and_nothing_else)
{
	struct lease_status status;
	uint64_t low, high;

	ck_assert_int_eq(granted(&one, &stage_a, 60 * FAKE_PAGE, "low"), 0);
	low = one.lease.lease;
	ck_assert_int_eq(granted(&one, &stage_a, 20 * FAKE_PAGE, "high"), 0);
	high = one.lease.lease;
	ck_assert_int_eq(attached(&two, &stage_b, "high", WIRE_RIGHT_READ), 0);
	reclaim(128 - 70, true);
	stage_now_ms += 499;
	sweep();
	ck_assert_uint_eq(stage_revoked.n, 0);
	stage_now_ms++;
	sweep();
	ck_assert_uint_eq(stage_revoked.n, 2);
	ck_assert_uint_eq(stage_revoked.lease, high);
	ck_assert_uint_eq(stage_revoked.reason, WIRE_REASON_REVOKED);
	ck_assert(!stage_status(high, &status));
	ck_assert(stage_status(low, &status));
	ck_assert_uint_eq(fake_pools_lent(), 60);
}
END_TEST

/* It is told of once it is granted, or revoked as any other. */
START_TEST(reclaim__meets_a_lease_that_is_being_granted)
{
	const struct lease_params params = { .bytes = 100 * FAKE_PAGE,
					     .node = -1,
					     .name = "" };

	ck_assert_int_eq(lease_allocate(stage_leases, &stage_a, &params, ask(&one)), 0);
	ck_assert_uint_eq(one.answers, 0);
	fake_pools_reclaim(128 - 40, stage_now_ms + 500, true);
	leases_reclaim(stage_leases);
	leases_tick(stage_leases);
	ck_assert_uint_eq(stage_wanted.n, 0);
	if (_i) {
		stage_now_ms += 500;
		sweep();
		ck_assert_uint_eq(one.answers, 1);
		ck_assert_int_eq(one.err, -ESTALE);
		ck_assert_uint_eq(fake_pools_lent(), 0);
		return;
	}
	fake_fabric_settle();
	ck_assert_uint_eq(one.answers, 1);
	ck_assert_int_eq(one.err, 0);
	assert_told(1, &stage_a, one.lease.lease, 60 * FAKE_PAGE);
}
END_TEST

/* Others get their turn in between. */
START_TEST(reclaim__revokes_many_over_several_turns)
{
	enum { N = 90 };

	for (unsigned i = 0; i < N; i++)
		ck_assert_int_eq(granted(&one, &stage_a, FAKE_PAGE, ""), 0);
	fake_pools_reclaim(128 - 5, stage_now_ms, true);
	leases_reclaim(stage_leases);
	leases_tick(stage_leases);
	ck_assert_uint_gt(stage_revoked.n, 0);
	ck_assert_uint_lt(stage_revoked.n, N - 5);
	ck_assert_uint_eq(leases_next_ms(stage_leases), 0);
	while (leases_next_ms(stage_leases) == 0)
		leases_tick(stage_leases);
	fake_fabric_settle();
	ck_assert_uint_eq(stage_revoked.n, N - 5);
	ck_assert_uint_eq(fake_pools_lent(), 5);
}
END_TEST

/* Memory under dying keys comes back soon, but not what a pool wants back. */
START_TEST(reclaim__leaves_nothing_to_wait_for)
{
	const struct lease_params params = { .bytes = 10 * FAKE_PAGE,
					     .node = -1,
					     .name = "" };
	/* of the last 68 pages the pool wants nothing, a part that leaves enough, all */
	const unsigned wants[] = { 0, 58, 59, 68 };
	const bool waits = wants[_i / 2] <= 58;
	struct asked dying;

	ck_assert_int_eq(granted(&one, &stage_a, 60 * FAKE_PAGE, ""), 0);
	ck_assert_int_eq(granted(&one, &stage_a, 68 * FAKE_PAGE, ""), 0);
	ck_assert_int_eq(
		lease_free(stage_leases, &stage_a, one.lease.lease, ask(&dying)), 0);
	/* asked before it is wanted back, or after */
	if (_i % 2)
		fake_pools_reclaim(wants[_i / 2], stage_now_ms + 500, false);
	ck_assert_int_eq(lease_allocate(stage_leases, &stage_a, &params, ask(&two)), 0);
	ck_assert_uint_eq(two.answers, _i % 2 && !waits);
	fake_pools_reclaim(wants[_i / 2], stage_now_ms + 500, false);
	leases_reclaim(stage_leases);
	while (leases_next_ms(stage_leases) == 0)
		leases_tick(stage_leases);
	ck_assert_uint_eq(dying.answers, 0);
	ck_assert_uint_eq(two.answers, !waits);
	if (!waits) {
		ck_assert_int_eq(two.err, -ENOSPC);
		ck_assert_str_eq(two.text, "the fake is full");
	}
	fake_fabric_settle();
	fake_pools_scrub();
	leases_retry(stage_leases);
	fake_fabric_settle();
	ck_assert_uint_eq(two.answers, 1);
	ck_assert_int_eq(two.err, waits ? 0 : -ENOSPC);
}
END_TEST

START_TEST(describe__names_the_largest_in_the_way)
{
	static const unsigned pages[] = { 31, 2, 5, 1, 3, 4, 2 };
	char buf[256];

	for (unsigned i = 0; i < 7; i++)
		ck_assert_int_eq(granted(&one, &stage_a, pages[i] * FAKE_PAGE, ""), 0);
	fake_pools_reclaim(128 - 30, stage_now_ms, false);
	ck_assert(leases_describe_reclaimed(stage_leases, 1, buf, sizeof(buf)));
	ck_assert_str_eq(buf, "72 KiB of 7 leases: 9 of tenant default has 20 KiB, "
			      "12 of tenant default has 16 KiB, "
			      "11 of tenant default has 12 KiB, "
			      "8 of tenant default has 8 KiB, ...");
	ck_assert(!leases_describe_reclaimed(stage_leases, 2, buf, sizeof(buf)));
	fake_pools_reclaim(128 - 48, stage_now_ms, false);
	ck_assert(!leases_describe_reclaimed(stage_leases, 1, buf, sizeof(buf)));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("reclaim");
	TCase *tc = tcase_create("reclaim");

	tcase_add_checked_fixture(tc, stage_setup, stage_teardown);
	tcase_add_test(tc, reclaim__tells_those_who_are_in_the_way);
	tcase_add_test(tc, reclaim__follows_what_is_given_back);
	tcase_add_test(tc, reclaim__is_told_again_to_who_comes_back);
	tcase_add_loop_test(tc, reclaim__is_told_while_keys_are_pending, 0, 2);
	tcase_add_test(tc, reclaim__waits_for_who_takes_nothing);
	tcase_add_test(tc, reclaim__revokes_what_is_due_and_nothing_else);
	tcase_add_loop_test(tc, reclaim__meets_a_lease_that_is_being_granted, 0, 2);
	tcase_add_test(tc, reclaim__revokes_many_over_several_turns);
	tcase_add_loop_test(tc, reclaim__leaves_nothing_to_wait_for, 0, 8);
	tcase_add_test(tc, describe__names_the_largest_in_the_way);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
