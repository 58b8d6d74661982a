/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that wait for memory or keys; the wait, or the lease, may end meanwhile. */
#include <errno.h>

#include "unit/rmemd/lease-stage.h"
#include "unit/unit.h"

static struct call one, two;

START_TEST(allocate__waits_while_memory_is_scrubbed)
{
	(void)new_lease(&one, &stage_a, FAKE_PAGES * FAKE_PAGE, "");
	ck_assert_int_eq(call_free(&stage_a, one.lease.lease), 0);
	send_allocate(&one, &stage_a, FAKE_PAGES * FAKE_PAGE, "");
	send_allocate(&two, &stage_b, 1, "");
	fake_fabric_settle();
	leases_retry(stage_leases);
	ck_assert_uint_eq(one.replies + two.replies, 0);
	ck_assert_uint_eq(leases_next_ms(stage_leases), stage_now_ms + 10000);
	ck_assert(fake_pools_hurried());
	ck_assert_uint_eq(leases_counters(stage_leases)->waited, 0);
	stage_now_ms += 30;
	stage_scrub();
	ck_assert(!fake_pools_hurried());
	ck_assert_uint_eq(leases_counters(stage_leases)->waited, 2);
	ck_assert_uint_eq(leases_counters(stage_leases)->waited_ms, 60);
	/* the first request gets all memory, so the second fails */
	expect_reply(&one, 0);
	expect_reply(&two, -ENOSPC);
}
END_TEST

START_TEST(allocate__waits_while_keys_die)
{
	uint64_t id = new_lease(&one, &stage_a, FAKE_PAGES * FAKE_PAGE, "");

	send_free(&one, &stage_a, id);
	send_allocate(&two, &stage_b, FAKE_PAGES * FAKE_PAGE, "");
	ck_assert_uint_eq(two.replies, 0);
	fake_fabric_settle();
	stage_scrub();
	expect_reply(&two, 0);
}
END_TEST

/* All memory is lent; keys die of the part that is lent through one port only. */
START_TEST(allocate__waits_only_for_memory_in_reach)
{
	/* 0: the ports of its channels, here the first */
	static const unsigned reach[] = { 0, 1, 2, 3 };
	const bool waits = reach[_i] & 2;
	uint64_t far;

	fake_pools_lend_through(1, 2);
	fake_pools_break(FAKE_NODE_PAGES);
	stage_connect(&stage_a, 1);
	(void)new_lease(&one, &stage_a, FAKE_NODE_PAGES * FAKE_PAGE, "");
	far = new_lease(&one, &stage_a,
			(uint64_t)(FAKE_PAGES - FAKE_NODE_PAGES) * FAKE_PAGE, "");
	ck_assert_int_eq(one.lease.segments[0].node, 1);
	send_free(&one, &stage_a, far);
	stage_b.reach = reach[_i];
	send_allocate(&two, &stage_b, 1, "");
	ck_assert_uint_eq(two.replies, !waits);
	if (!waits)
		ck_assert_int_eq(two.err, -ENOSPC);
	fake_fabric_settle();
	stage_scrub();
	expect_reply(&two, waits ? 0 : -ENOSPC);
}
END_TEST

START_TEST(allocate__fails_after_waiting_too_long)
{
	(void)new_lease(&one, &stage_a, 1, "");
	ck_assert_int_eq(call_free(&stage_a, one.lease.lease), 0);
	send_allocate(&one, &stage_a, FAKE_PAGES * FAKE_PAGE, "n");
	/* it cannot be attached, and its name is in use */
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), -ENOENT);
	ck_assert_int_eq(call_allocate(&two, &stage_b, 1, "n"), -EEXIST);
	stage_pass(9999);
	ck_assert_uint_eq(one.replies, 0);
	stage_pass(1);
	expect_reply(&one, -ENOSPC);
	ck_assert_uint_eq(leases_next_ms(stage_leases), UINT64_MAX);
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), -ENOENT);
}
END_TEST

/* The request is cancelled after `_i` events. */
START_TEST(cancel__undoes_the_request)
{
	fake_pools_reset(3);
	send_allocate(&one, &stage_a, 5 * FAKE_PAGE, "n");
	for (int i = 0; i < _i; i++)
		ck_assert(fake_fabric_step(0));
	(void)lease_waiter_cancel(&one.waiter);
	(void)new_lease(&two, &stage_b, 1, "n");
	ck_assert_uint_eq(one.replies, 0);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	send_attach(&one, &stage_a, "n");
	(void)lease_waiter_cancel(&one.waiter);
	fake_fabric_settle();
	ck_assert_uint_eq(stage_a.n_attachments, 0);
	ck_assert_int_eq(call_attach(&one, &stage_a, "n", STAGE_RW), 0);
	ck_assert_int_eq(call_free(&stage_b, two.lease.lease), 0);
}
END_TEST

START_TEST(cancel__ends_a_wait_for_memory)
{
	(void)new_lease(&one, &stage_a, 1, "");
	ck_assert_int_eq(call_free(&stage_a, one.lease.lease), 0);
	send_allocate(&one, &stage_a, FAKE_PAGES * FAKE_PAGE, "n");
	(void)lease_waiter_cancel(&one.waiter);
	stage_scrub();
	ck_assert_uint_eq(one.replies, 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_uint_eq(leases_next_ms(stage_leases), UINT64_MAX);
}
END_TEST

START_TEST(cancel__deregisters_a_pending_mr)
{
	send_allocate(&one, &stage_a, 1, "n");
	(void)lease_waiter_cancel(&one.waiter);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

START_TEST(attach__fails_when_the_lease_ends)
{
	(void)new_lease(&one, &stage_a, 1, "n");
	send_attach(&two, &stage_b, "n");
	ck_assert_int_eq(call_free(&stage_a, one.lease.lease), 0);
	expect_reply(&two, -ESTALE);
}
END_TEST

START_TEST(close__keeps_memory_for_the_next_process)
{
	unsigned lent;

	(void)new_lease(&one, &stage_a, 1, "n");
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), 0);
	send_allocate(&two, &stage_b, 1, "");
	(void)lease_waiter_cancel(&two.waiter);
	send_allocate(&two, &stage_a, 1, "");
	fake_fabric_close();
	lent = fake_pools_lent();
	leases_close(stage_leases);
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
	TCase *tc = unit_case("waits", stage_setup, stage_teardown);

	tcase_add_test(tc, allocate__waits_while_memory_is_scrubbed);
	tcase_add_test(tc, allocate__waits_while_keys_die);
	tcase_add_loop_test(tc, allocate__waits_only_for_memory_in_reach, 0, 4);
	tcase_add_test(tc, allocate__fails_after_waiting_too_long);
	tcase_add_loop_test(tc, cancel__undoes_the_request, 0, 3);
	tcase_add_test(tc, cancel__ends_a_wait_for_memory);
	tcase_add_test(tc, cancel__deregisters_a_pending_mr);
	tcase_add_test(tc, attach__fails_when_the_lease_ends);
	tcase_add_test(tc, close__keeps_memory_for_the_next_process);
	return unit_main();
}
