/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests wait for memory or keys, and what they wait for, or they, may end meanwhile. */
#include <errno.h>

#include "unit/rmemd/lease-stage.h"
#include "unit/unit.h"

static struct asked one, two;

START_TEST(memory__is_waited_for_while_it_is_scrubbed)
{
	const struct lease_params all = { .bytes = FAKE_PAGES * FAKE_PAGE,
					  .node = -1,
					  .name = "" };
	const struct lease_params few = { .bytes = 1, .node = -1, .name = "" };

	ck_assert_int_eq(granted(&one, &stage_a, all.bytes, ""), 0);
	ck_assert_int_eq(freed(&stage_a, one.lease.lease), 0);
	ck_assert_int_eq(lease_allocate(stage_leases, &stage_a, &all, ask(&one)), 0);
	ck_assert_int_eq(lease_allocate(stage_leases, &stage_b, &few, ask(&two)), 0);
	fake_fabric_settle();
	leases_retry(stage_leases);
	ck_assert_uint_eq(one.answers + two.answers, 0);
	ck_assert_uint_eq(leases_next_ms(stage_leases), stage_now_ms + 10000);
	ck_assert(fake_pools_hurried());
	ck_assert_uint_eq(leases_counters(stage_leases)->waited, 0);
	stage_now_ms += 30;
	fake_pools_scrub();
	leases_retry(stage_leases);
	fake_fabric_settle();
	ck_assert(!fake_pools_hurried());
	ck_assert_uint_eq(leases_counters(stage_leases)->waited, 2);
	ck_assert_uint_eq(leases_counters(stage_leases)->waited_ms, 60);
	/* the first in line is served, and leaves nothing for the second */
	ck_assert_uint_eq(one.answers, 1);
	ck_assert_int_eq(one.err, 0);
	ck_assert_uint_eq(two.answers, 1);
	ck_assert_int_eq(two.err, -ENOSPC);
}
END_TEST

START_TEST(memory__is_waited_for_while_its_keys_die)
{
	const struct lease_params all = { .bytes = FAKE_PAGES * FAKE_PAGE,
					  .node = -1,
					  .name = "" };
	uint64_t id;

	ck_assert_int_eq(granted(&one, &stage_a, all.bytes, ""), 0);
	id = one.lease.lease;
	ck_assert_int_eq(lease_free(stage_leases, &stage_a, id, ask(&one)), 0);
	ck_assert_int_eq(lease_allocate(stage_leases, &stage_b, &all, ask(&two)), 0);
	ck_assert_uint_eq(two.answers, 0);
	fake_fabric_settle();
	fake_pools_scrub();
	leases_retry(stage_leases);
	fake_fabric_settle();
	ck_assert_uint_eq(two.answers, 1);
	ck_assert_int_eq(two.err, 0);
}
END_TEST

/* All is lent, and keys die of what is lent through one port alone. */
START_TEST(memory__is_waited_for_within_reach)
{
	/* 0: as its channels, there to the first port */
	static const unsigned reach[] = { 0, 1, 2, 3 };
	const bool waits = reach[_i] & 2;
	const struct lease_params few = { .bytes = 1, .node = -1, .name = "" };
	uint64_t far;

	fake_pools_lend_through(1, 2);
	fake_pools_break(FAKE_NODE_PAGES);
	stage_connect(&stage_a, 1);
	ck_assert_int_eq(granted(&one, &stage_a, FAKE_NODE_PAGES * FAKE_PAGE, ""), 0);
	ck_assert_int_eq(granted(&one, &stage_a,
				 (uint64_t)(FAKE_PAGES - FAKE_NODE_PAGES) * FAKE_PAGE,
				 ""),
			 0);
	far = one.lease.lease;
	ck_assert_int_eq(one.lease.segments[0].node, 1);
	ck_assert_int_eq(lease_free(stage_leases, &stage_a, far, ask(&one)), 0);
	stage_b.reach = reach[_i];
	ck_assert_int_eq(lease_allocate(stage_leases, &stage_b, &few, ask(&two)), 0);
	ck_assert_uint_eq(two.answers, !waits);
	if (!waits)
		ck_assert_int_eq(two.err, -ENOSPC);
	fake_fabric_settle();
	fake_pools_scrub();
	leases_retry(stage_leases);
	fake_fabric_settle();
	ck_assert_uint_eq(two.answers, 1);
	ck_assert_int_eq(two.err, waits ? 0 : -ENOSPC);
}
END_TEST

START_TEST(memory__is_not_waited_for_for_ever)
{
	const struct lease_params all = { .bytes = FAKE_PAGES * FAKE_PAGE,
					  .node = -1,
					  .name = "n" };

	ck_assert_int_eq(granted(&one, &stage_a, 1, ""), 0);
	ck_assert_int_eq(freed(&stage_a, one.lease.lease), 0);
	ck_assert_int_eq(lease_allocate(stage_leases, &stage_a, &all, ask(&one)), 0);
	/* it cannot be attached, and its name is taken */
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), -ENOENT);
	ck_assert_int_eq(granted(&two, &stage_b, 1, "n"), -EEXIST);
	stage_now_ms += 9999;
	leases_tick(stage_leases);
	ck_assert_uint_eq(one.answers, 0);
	stage_now_ms++;
	leases_tick(stage_leases);
	ck_assert_uint_eq(one.answers, 1);
	ck_assert_int_eq(one.err, -ENOSPC);
	ck_assert_uint_eq(leases_next_ms(stage_leases), UINT64_MAX);
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), -ENOENT);
}
END_TEST

/* The request's session dies, `_i` pieces of news after it was made. */
START_TEST(cancel__leaves_nothing_behind)
{
	const struct lease_params params = { .bytes = 5 * FAKE_PAGE,
					     .node = -1,
					     .name = "n" };

	fake_pools_reset(3);
	ck_assert_int_eq(lease_allocate(stage_leases, &stage_a, &params, ask(&one)), 0);
	for (int i = 0; i < _i; i++)
		ck_assert(fake_fabric_step(0));
	(void)lease_waiter_cancel(&one.waiter);
	ck_assert_int_eq(granted(&two, &stage_b, 1, "n"), 0);
	ck_assert_uint_eq(one.answers, 0);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert_int_eq(lease_attach(stage_leases, &stage_a, "n", STAGE_RW, ask(&one)),
			 0);
	(void)lease_waiter_cancel(&one.waiter);
	fake_fabric_settle();
	ck_assert_uint_eq(stage_a.n_attachments, 0);
	ck_assert_int_eq(attached(&one, &stage_a, "n", STAGE_RW), 0);
	ck_assert_int_eq(freed(&stage_b, two.lease.lease), 0);
}
END_TEST

START_TEST(cancel__of_a_wait_for_memory)
{
	const struct lease_params all = { .bytes = FAKE_PAGES * FAKE_PAGE,
					  .node = -1,
					  .name = "n" };

	ck_assert_int_eq(granted(&one, &stage_a, 1, ""), 0);
	ck_assert_int_eq(freed(&stage_a, one.lease.lease), 0);
	ck_assert_int_eq(lease_allocate(stage_leases, &stage_a, &all, ask(&one)), 0);
	(void)lease_waiter_cancel(&one.waiter);
	fake_pools_scrub();
	leases_retry(stage_leases);
	fake_fabric_settle();
	ck_assert_uint_eq(one.answers, 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_uint_eq(leases_next_ms(stage_leases), UINT64_MAX);
}
END_TEST

START_TEST(late_news__of_a_key_that_dies)
{
	const struct lease_params params = { .bytes = 1, .node = -1, .name = "n" };

	ck_assert_int_eq(lease_allocate(stage_leases, &stage_a, &params, ask(&one)), 0);
	(void)lease_waiter_cancel(&one.waiter);
	/* the fabric withdraws what it has not even exposed */
	ck_assert_uint_eq(fake_pools_lent(), 1);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

START_TEST(requests__fail_when_the_lease_ends_under_them)
{
	ck_assert_int_eq(granted(&one, &stage_a, 1, "n"), 0);
	ck_assert_int_eq(lease_attach(stage_leases, &stage_b, "n", STAGE_RW, ask(&two)),
			 0);
	ck_assert_int_eq(freed(&stage_a, one.lease.lease), 0);
	ck_assert_uint_eq(two.answers, 1);
	ck_assert_int_eq(two.err, -ESTALE);
}
END_TEST

START_TEST(close__drops_what_is_under_way)
{
	const struct lease_params params = { .bytes = 1, .node = -1, .name = "" };
	unsigned lent;

	ck_assert_int_eq(granted(&one, &stage_a, 1, "n"), 0);
	ck_assert_int_eq(attached(&two, &stage_b, "n", STAGE_RW), 0);
	ck_assert_int_eq(lease_allocate(stage_leases, &stage_b, &params, ask(&two)), 0);
	(void)lease_waiter_cancel(&two.waiter);
	ck_assert_int_eq(lease_allocate(stage_leases, &stage_a, &params, ask(&two)), 0);
	fake_fabric_close();
	lent = fake_pools_lent();
	leases_close(stage_leases);
	/* the next process has it all, as it is */
	ck_assert_uint_gt(lent, 0);
	ck_assert_uint_eq(fake_pools_lent(), lent);
	ck_assert_uint_eq(fake_pools_dirty(), 0);
	ck_assert_uint_eq(stage_a.n_attachments + stage_b.n_attachments, 0);
	ck_assert_uint_eq(stage_revoked.n, 0);
	stage_leases = NULL;
	stage_a.ports[0].session = stage_b.ports[0].session = NULL;
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("lease-waits");
	TCase *tc = tcase_create("waits");

	tcase_add_checked_fixture(tc, stage_setup, stage_teardown);
	tcase_add_test(tc, memory__is_waited_for_while_it_is_scrubbed);
	tcase_add_test(tc, memory__is_waited_for_while_its_keys_die);
	tcase_add_loop_test(tc, memory__is_waited_for_within_reach, 0, 4);
	tcase_add_test(tc, memory__is_not_waited_for_for_ever);
	tcase_add_loop_test(tc, cancel__leaves_nothing_behind, 0, 3);
	tcase_add_test(tc, cancel__of_a_wait_for_memory);
	tcase_add_test(tc, late_news__of_a_key_that_dies);
	tcase_add_test(tc, requests__fail_when_the_lease_ends_under_them);
	tcase_add_test(tc, close__drops_what_is_under_way);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
