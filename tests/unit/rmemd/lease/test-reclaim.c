/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools reclaim their last part: clients that have leases there get events, and the
 * leases are revoked when the time is over. */
#include <errno.h>
#include <string.h>

#include "rmemd/pool/pools.h"
#include "unit/rmemd/lease-stage.h"
#include "unit/unit.h"

static struct call one, two;

static void tick_until_done(void)
{
	while (leases_next_ms(stage_leases) == 0)
		leases_tick(stage_leases);
}

static void reclaim_all(void)
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
	reclaim_all();
}

static void expect_event(unsigned n, const struct lease_client *client, uint64_t lease,
			 uint64_t bytes)
{
	ck_assert_uint_eq(stage_shrinking.n, n);
	ck_assert_ptr_eq(stage_shrinking.client, client);
	ck_assert_uint_eq(stage_shrinking.lease, lease);
	ck_assert_uint_eq(stage_shrinking_last.bytes, bytes);
}

START_TEST(reclaim__sends_events_for_leases_in_the_part)
{
	uint64_t low, high;

	low = new_lease(&one, &stage_a, 60 * FAKE_PAGE, "");
	high = new_lease(&one, &stage_a, 20 * FAKE_PAGE, "high");
	ck_assert_uint_lt(low, high);
	/* the part starts at page 70; the lease has the pages from 60 to 80 */
	reclaim(128 - 70, false);
	expect_event(1, &stage_a, high, 10 * FAKE_PAGE);
	ck_assert_uint_eq(stage_shrinking_last.wait_ms, 500);
	ck_assert(!stage_shrinking_last.revoke);
	/* another client gets an event when it has attached the lease */
	ck_assert_int_eq(call_attach(&two, &stage_b, "high", WIRE_RIGHT_READ), 0);
	expect_event(2, &stage_b, high, 10 * FAKE_PAGE);
	/* nothing has changed: no event */
	ck_assert_int_eq(call_rekey(&two, &stage_b, high), 0);
	ck_assert_uint_eq(stage_shrinking.n, 2);
	/* another deadline: both get an event */
	reclaim(128 - 70, true);
	ck_assert_uint_eq(stage_shrinking.n, 4);
	ck_assert(stage_shrinking_last.revoke);
	/* and at the end of the reclaim */
	reclaim(0, false);
	expect_event(6, &stage_b, high, 0);
	reclaim(0, false);
	ck_assert_uint_eq(stage_shrinking.n, 6);
	ck_assert_uint_eq(stage_revoked.n, 0);
}
END_TEST

START_TEST(reclaim__sends_an_event_after_a_trim)
{
	uint64_t id = new_lease(&one, &stage_a, 100 * FAKE_PAGE, "n");

	ck_assert_int_eq(call_attach(&two, &stage_b, "n", WIRE_RIGHT_READ), 0);
	reclaim(128 - 40, false);
	ck_assert_uint_eq(stage_shrinking.n, 2);
	ck_assert_uint_eq(stage_shrinking_last.bytes, 60 * FAKE_PAGE);
	ck_assert_int_eq(call_resize(&one, &stage_a, id, 50 * FAKE_PAGE), 0);
	ck_assert_uint_eq(stage_shrinking.n, 4);
	ck_assert_uint_eq(stage_shrinking_last.bytes, 10 * FAKE_PAGE);
	ck_assert_int_eq(call_resize(&one, &stage_a, id, 30 * FAKE_PAGE), 0);
	ck_assert_uint_eq(stage_shrinking.n, 6);
	ck_assert_uint_eq(stage_shrinking_last.bytes, 0);
	/* no event when the lease ends */
	ck_assert_int_eq(call_free(&stage_a, id), 0);
	ck_assert_uint_eq(stage_shrinking.n, 6);
}
END_TEST

START_TEST(reclaim__repeats_the_event_after_a_fence)
{
	uint64_t id = new_lease(&one, &stage_a, 100 * FAKE_PAGE, "");

	stage_fence(&stage_a);
	reclaim(128 - 40, false);
	ck_assert_uint_eq(stage_shrinking.n, 0);
	stage_connect(&stage_a, 0);
	ck_assert_int_eq(call_rekey(&one, &stage_a, id), 0);
	expect_event(1, &stage_a, id, 60 * FAKE_PAGE);
	stage_fence(&stage_a);
	fake_fabric_settle();
	stage_connect(&stage_a, 0);
	ck_assert_int_eq(call_rekey(&one, &stage_a, id), 0);
	expect_event(2, &stage_a, id, 60 * FAKE_PAGE);
	/* the reclaim ended while the client had no connection: no event */
	stage_fence(&stage_a);
	reclaim(0, false);
	stage_connect(&stage_a, 0);
	ck_assert_int_eq(call_rekey(&one, &stage_a, id), 0);
	ck_assert_uint_eq(stage_shrinking.n, 2);
}
END_TEST

/* The reclaim changes while new keys are pending. */
START_TEST(reclaim__sends_events_while_keys_are_pending)
{
	const uint64_t bytes = 100 * FAKE_PAGE;
	uint64_t id = new_lease(&one, &stage_a, bytes - 10, "");

	reclaim(128 - 40, false);
	expect_event(1, &stage_a, id, 60 * FAKE_PAGE);
	send_resize(&two, &stage_a, id, bytes);
	ck_assert_uint_eq(two.replies, 0);
	fake_pools_reclaim(_i ? 0 : 128 - 40, stage_now_ms + 500, true);
	leases_reclaim(stage_leases);
	tick_until_done();
	fake_fabric_settle();
	ck_assert_int_eq(two.err, 0);
	expect_event(2, &stage_a, id, _i ? 0 : 60 * FAKE_PAGE);
	ck_assert(_i || stage_shrinking_last.revoke);
}
END_TEST

/* The client gets one event, with the latest state. */
START_TEST(reclaim__merges_events_of_a_busy_client)
{
	uint64_t id, other;

	id = new_lease(&one, &stage_a, 100 * FAKE_PAGE, "n");
	other = new_lease(&one, &stage_a, 10 * FAKE_PAGE, "");
	stage_hold_events = true;
	reclaim(128 - 40, false);
	reclaim(128 - 50, true);
	ck_assert_uint_eq(stage_shrinking.n, 0);
	/* no event for a lease that has ended */
	ck_assert_int_eq(call_free(&stage_a, other), 0);
	stage_now_ms += 100;
	stage_take_events(&stage_a);
	expect_event(1, &stage_a, id, 50 * FAKE_PAGE);
	ck_assert_uint_eq(stage_shrinking_last.wait_ms, 400);
	ck_assert_uint_eq(stage_shrinking_last.revoke, 1);
	stage_take_events(&stage_a);
	ck_assert_uint_eq(stage_shrinking.n, 1);
	/* one event at the end of the reclaim */
	stage_hold_events = true;
	reclaim(0, false);
	stage_take_events(&stage_a);
	expect_event(2, &stage_a, id, 0);
	stage_hold_events = true;
	reclaim(128 - 40, false);
	reclaim(0, false);
	stage_take_events(&stage_a);
	ck_assert_uint_eq(stage_shrinking.n, 2);
	/* after a fence: one event, when the client has new keys */
	stage_hold_events = true;
	reclaim(128 - 40, false);
	stage_fence(&stage_a);
	stage_take_events(&stage_a);
	ck_assert_uint_eq(stage_shrinking.n, 2);
	stage_connect(&stage_a, 0);
	ck_assert_int_eq(call_rekey(&one, &stage_a, id), 0);
	expect_event(3, &stage_a, id, 60 * FAKE_PAGE);
}
END_TEST

START_TEST(reclaim__revokes_only_leases_in_the_part)
{
	struct lease_status status;
	uint64_t low, high;

	low = new_lease(&one, &stage_a, 60 * FAKE_PAGE, "low");
	high = new_lease(&one, &stage_a, 20 * FAKE_PAGE, "high");
	ck_assert_int_eq(call_attach(&two, &stage_b, "high", WIRE_RIGHT_READ), 0);
	reclaim(128 - 70, true);
	stage_now_ms += 499;
	reclaim_all();
	ck_assert_uint_eq(stage_revoked.n, 0);
	stage_now_ms++;
	reclaim_all();
	ck_assert_uint_eq(stage_revoked.n, 2);
	ck_assert_uint_eq(stage_revoked.lease, high);
	ck_assert_uint_eq(stage_revoked.reason, WIRE_REASON_REVOKED);
	ck_assert(!stage_status(high, &status));
	ck_assert(stage_status(low, &status));
	ck_assert_uint_eq(fake_pools_lent(), 60);
}
END_TEST

/* The event is sent after the grant; or the lease is revoked before. */
START_TEST(reclaim__handles_a_lease_before_its_grant)
{
	send_allocate(&one, &stage_a, 100 * FAKE_PAGE, "");
	ck_assert_uint_eq(one.replies, 0);
	fake_pools_reclaim(128 - 40, stage_now_ms + 500, true);
	leases_reclaim(stage_leases);
	leases_tick(stage_leases);
	ck_assert_uint_eq(stage_shrinking.n, 0);
	if (_i) {
		stage_now_ms += 500;
		reclaim_all();
		expect_reply(&one, -ESTALE);
		ck_assert_uint_eq(fake_pools_lent(), 0);
		return;
	}
	fake_fabric_settle();
	expect_reply(&one, 0);
	expect_event(1, &stage_a, one.lease.lease, 60 * FAKE_PAGE);
}
END_TEST

START_TEST(reclaim__revokes_a_limited_number_per_tick)
{
	enum { N = 90 };

	for (unsigned i = 0; i < N; i++)
		(void)new_lease(&one, &stage_a, FAKE_PAGE, "");
	fake_pools_reclaim(128 - 5, stage_now_ms, true);
	leases_reclaim(stage_leases);
	leases_tick(stage_leases);
	ck_assert_uint_gt(stage_revoked.n, 0);
	ck_assert_uint_lt(stage_revoked.n, N - 5);
	ck_assert_uint_eq(leases_next_ms(stage_leases), 0);
	tick_until_done();
	fake_fabric_settle();
	ck_assert_uint_eq(stage_revoked.n, N - 5);
	ck_assert_uint_eq(fake_pools_lent(), 5);
}
END_TEST

/* A request waits for memory whose keys are dying, unless the pool reclaims it. */
START_TEST(reclaim__fails_requests_that_wait_for_the_part)
{
	/* of the last 68 pages: none, a part that leaves enough, too large a part, all */
	const unsigned wants[] = { 0, 58, 59, 68 };
	const bool waits = wants[_i / 2] <= 58;
	struct call dying;

	(void)new_lease(&one, &stage_a, 60 * FAKE_PAGE, "");
	(void)new_lease(&one, &stage_a, 68 * FAKE_PAGE, "");
	send_free(&dying, &stage_a, one.lease.lease);
	/* the request comes after the reclaim, or before */
	if (_i % 2)
		fake_pools_reclaim(wants[_i / 2], stage_now_ms + 500, false);
	send_allocate(&two, &stage_a, 10 * FAKE_PAGE, "");
	ck_assert_uint_eq(two.replies, _i % 2 && !waits);
	fake_pools_reclaim(wants[_i / 2], stage_now_ms + 500, false);
	leases_reclaim(stage_leases);
	tick_until_done();
	ck_assert_uint_eq(dying.replies, 0);
	ck_assert_uint_eq(two.replies, !waits);
	if (!waits) {
		ck_assert_int_eq(two.err, -ENOSPC);
		ck_assert_str_eq(two.text, "the fake is full");
	}
	fake_fabric_settle();
	stage_scrub();
	expect_reply(&two, waits ? 0 : -ENOSPC);
}
END_TEST

/* Find and describe the leases that a pool wants back; returns the number of calls that it took. */
static unsigned describe(uint32_t pool, char *buf, size_t buf_bytes)
{
	struct pool_holders holders = { .pool = pool };
	unsigned n = 1;

	while (!leases_find_holders(stage_leases, &holders))
		n++;
	leases_describe_holders(stage_leases, &holders, buf, buf_bytes);
	return n;
}

START_TEST(describe__names_the_largest_leases)
{
	static const unsigned pages[] = { 31, 2, 5, 1, 3, 4, 2 };
	char buf[256];

	for (unsigned i = 0; i < 7; i++)
		(void)new_lease(&one, &stage_a, pages[i] * FAKE_PAGE, "");
	fake_pools_reclaim(128 - 30, stage_now_ms, false);
	ck_assert_uint_eq(describe(1, buf, sizeof(buf)), 1);
	ck_assert_str_eq(buf, "72 KiB of 7 leases: 9 of tenant default has 20 KiB, "
			      "12 of tenant default has 16 KiB, "
			      "11 of tenant default has 12 KiB, "
			      "8 of tenant default has 8 KiB, ...");
	(void)describe(2, buf, sizeof(buf));
	ck_assert_str_eq(buf, "0 B of 0 leases");
	fake_pools_reclaim(128 - 48, stage_now_ms, false);
	(void)describe(1, buf, sizeof(buf));
	ck_assert_str_eq(buf, "0 B of 0 leases");
}
END_TEST

/* Other clients are served meanwhile: a lease may end after it was found. */
START_TEST(describe__takes_few_leases_at_a_time)
{
	struct pool_holders holders = { .pool = 1 };
	char buf[256];
	uint64_t lease;

	stage_tenant.limits.leases_max = 2000;
	lease = new_lease(&one, &stage_a, 8 * FAKE_PAGE, "");
	for (unsigned i = 0; i < 1500; i++)
		(void)new_lease(&one, &stage_a, 0, "");
	(void)new_lease(&one, &stage_a, 4 * FAKE_PAGE, "");
	fake_pools_reclaim(128, stage_now_ms, false);
	ck_assert_uint_ge(describe(1, buf, sizeof(buf)), 2);
	ck_assert_str_eq(buf, "48 KiB of 2 leases: 7 of tenant default has 32 KiB, "
			      "1508 of tenant default has 16 KiB");
	ck_assert(!leases_find_holders(stage_leases, &holders));
	ck_assert_uint_eq(holders.n, 1);
	ck_assert_int_eq(call_free(&stage_a, lease), 0);
	fake_fabric_settle();
	while (!leases_find_holders(stage_leases, &holders))
		;
	leases_describe_holders(stage_leases, &holders, buf, sizeof(buf));
	ck_assert_str_eq(buf, "48 KiB of 2 leases: 7 of tenant - has 32 KiB, "
			      "1508 of tenant default has 16 KiB");
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("reclaim", stage_setup, stage_teardown);

	tcase_add_test(tc, reclaim__sends_events_for_leases_in_the_part);
	tcase_add_test(tc, reclaim__sends_an_event_after_a_trim);
	tcase_add_test(tc, reclaim__repeats_the_event_after_a_fence);
	tcase_add_loop_test(tc, reclaim__sends_events_while_keys_are_pending, 0, 2);
	tcase_add_test(tc, reclaim__merges_events_of_a_busy_client);
	tcase_add_test(tc, reclaim__revokes_only_leases_in_the_part);
	tcase_add_loop_test(tc, reclaim__handles_a_lease_before_its_grant, 0, 2);
	tcase_add_test(tc, reclaim__revokes_a_limited_number_per_tick);
	tcase_add_loop_test(tc, reclaim__fails_requests_that_wait_for_the_part, 0, 8);
	tcase_add_test(tc, describe__names_the_largest_leases);
	tcase_add_test(tc, describe__takes_few_leases_at_a_time);
	return unit_main();
}
