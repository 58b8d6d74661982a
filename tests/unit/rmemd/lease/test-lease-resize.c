/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases grow and are trimmed; random requests of all kinds leave nothing behind. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/rmemd/lease-stage.h"
#include "rmemd/lease/attachment.h"
#include "unit/borders.h"
#include "unit/unit.h"

static struct call one, two, three;

static char *lease_addr(const struct call *call, unsigned key)
{
	return (char *)(uintptr_t)call->lease.keys[key].addr;
}

static bool zero(const char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i])
			return false;
	return true;
}

START_TEST(grow__uses_the_last_page_first)
{
	(void)new_lease(&one, &stage_a, 100, "");
	memset(lease_addr(&one, 0), 7, 100);
	ck_assert_int_eq(call_resize(&two, &stage_a, one.lease.lease, FAKE_PAGE), 0);
	ck_assert_uint_eq(two.lease.bytes, FAKE_PAGE);
	ck_assert_uint_eq(two.lease.n_segments, 1);
	ck_assert_uint_eq(two.lease.n_keys, 1);
	ck_assert_uint_gt(two.lease.generation, one.lease.generation);
	ck_assert_uint_ne(two.lease.keys[0].rkey, one.lease.keys[0].rkey);
	ck_assert_uint_eq(two.lease.keys[0].addr, one.lease.keys[0].addr);
	/* outstanding operations still use the old key */
	ck_assert(fake_fabric_key_works(one.lease.keys[0].rkey, 100));
	ck_assert(fake_fabric_key_works(two.lease.keys[0].rkey, FAKE_PAGE));
	ck_assert_int_eq(lease_addr(&two, 0)[99], 7);
	ck_assert(zero(lease_addr(&two, 0) + 100, FAKE_PAGE - 100));
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert_int_eq(call_resize(&two, &stage_a, one.lease.lease, FAKE_PAGE + 1),
			 0);
	ck_assert_uint_eq(two.lease.n_segments, 2);
	ck_assert_uint_eq(two.lease.segments[1].bytes, 1);
	ck_assert_uint_eq(two.lease.n_keys, 2);
}
END_TEST

/* Of all endpoints together. */
START_TEST(grow__keeps_the_latest_16_old_keys)
{
	const unsigned ports = (unsigned)_i, last = 60;
	uint64_t rkeys[61][2], id;

	for (unsigned port = 1; port < ports; port++)
		stage_connect(&stage_a, port);
	id = new_lease(&two, &stage_a, 1, "");
	for (unsigned bytes = 1; bytes <= last; bytes++) {
		if (bytes > 1)
			ck_assert_int_eq(call_resize(&two, &stage_a, id, bytes), 0);
		ck_assert_uint_eq(two.lease.n_keys, ports);
		for (unsigned port = 0; port < ports; port++)
			rkeys[bytes][port] = two.lease.keys[port].rkey;
	}
	for (unsigned bytes = 1; bytes <= last; bytes++)
		for (unsigned port = 0; port < ports; port++)
			ck_assert(fake_fabric_key_works(rkeys[bytes][port], bytes) ==
				  (bytes + 16 / ports >= last));
	ck_assert_uint_eq(fake_fabric_alive(), 16 + ports);
}
END_TEST

START_TEST(grow__sends_an_event_to_other_clients)
{
	(void)new_lease(&one, &stage_a, 100, "n");
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", WIRE_RIGHT_READ), 0);
	ck_assert_int_eq(call_resize(&one, &stage_a, one.lease.lease, 9000), 0);
	ck_assert_uint_eq(stage_changed.n, 1);
	ck_assert_ptr_eq(stage_changed.client, &stage_b);
	ck_assert_uint_eq(stage_changed.reason, WIRE_REASON_GROWN);
	ck_assert(fake_fabric_key_works(two.lease.keys[0].rkey, 100));
	ck_assert_int_eq(call_rekey(&two, &stage_b, one.lease.lease), 0);
	ck_assert_uint_eq(two.lease.bytes, 9000);
	ck_assert_uint_eq(two.lease.n_keys, 2);
	ck_assert_uint_eq(two.lease.generation, one.lease.generation);
	ck_assert_int_eq(call_free(&stage_a, one.lease.lease), 0);
}
END_TEST

START_TEST(grow__from_no_bytes_and_trim_to_no_bytes)
{
	(void)new_lease(&one, &stage_a, 0, "");
	ck_assert_int_eq(call_resize(&two, &stage_a, one.lease.lease, 5000), 0);
	ck_assert_uint_eq(two.lease.n_keys, 1);
	ck_assert_int_eq(call_resize(&two, &stage_a, one.lease.lease, 0), 0);
	ck_assert_uint_eq(two.lease.bytes + two.lease.n_segments + two.lease.n_keys, 0);
	ck_assert_uint_eq(fake_fabric_alive(), 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	fake_pools_scrub();
	ck_assert_int_eq(call_resize(&two, &stage_a, one.lease.lease, 1), 0);
	ck_assert_uint_eq(two.lease.n_keys, 1);
}
END_TEST

/* Each of the two registrations fails, by its call or by its event. */
START_TEST(grow__is_undone_when_registration_fails)
{
	uint64_t id = new_lease(&one, &stage_a, 100, "n");

	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), 0);
	if (_i < 2)
		fake_fabric_fail_reg((unsigned)_i, -ENOMEM);
	else
		fake_fabric_fail_event((unsigned)_i - 2, -ENOMEM);
	ck_assert_int_eq(call_resize(&three, &stage_a, id, 2 * FAKE_PAGE), -ENOMEM);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert(fake_fabric_key_works(one.lease.keys[0].rkey, 100));
	ck_assert(fake_fabric_key_works(two.lease.keys[0].rkey, 100));
	ck_assert_uint_eq(fake_fabric_alive(), 2);
	ck_assert_int_eq(call_rekey(&three, &stage_a, id), 0);
	ck_assert_uint_eq(three.lease.bytes, 100);
	ck_assert_int_eq(call_resize(&three, &stage_a, id, 2 * FAKE_PAGE), 0);
	ck_assert_int_eq(call_free(&stage_a, id), 0);
}
END_TEST

START_TEST(grow__has_limits)
{
	uint64_t id;

	stage_tenant.limits.lease_max = 10 * FAKE_PAGE;
	stage_tenant.limits.bytes_max = 5 * FAKE_PAGE;
	id = new_lease(&one, &stage_a, 100, "");
	ck_assert_int_eq(call_resize(&two, &stage_a, id, 10 * FAKE_PAGE + 1), -EDQUOT);
	ck_assert_int_eq(call_resize(&two, &stage_a, id, 10 * FAKE_PAGE), -EDQUOT);
	stage_tenant.limits.lease_max = stage_tenant.limits.bytes_max = 0;
	ck_assert_int_eq(call_resize(&two, &stage_a, id, UINT64_MAX), -ENOSPC);
	ck_assert_int_eq(call_rekey(&two, &stage_a, id), 0);
	ck_assert_uint_eq(two.lease.bytes, 100);
	ck_assert_uint_eq(fake_fabric_alive(), 1);
	ck_assert_int_eq(call_resize(&two, &stage_a, id, 200), 0);
}
END_TEST

START_TEST(grow__ends_at_the_last_segment)
{
	uint64_t bytes = FAKE_PAGE, id;

	fake_pools_reset(2);
	id = new_lease(&one, &stage_a, bytes, "");
	for (int i = 1; i < WIRE_SEGMENTS_MAX; i++)
		ck_assert_int_eq(call_resize(&two, &stage_a, id, bytes += FAKE_PAGE),
				 0);
	ck_assert_uint_eq(two.lease.n_segments, WIRE_SEGMENTS_MAX);
	ck_assert_uint_eq(two.lease.n_keys, WIRE_SEGMENTS_MAX);
	ck_assert_int_eq(call_resize(&two, &stage_a, id, bytes + 1), -ENOSPC);
}
END_TEST

START_TEST(grow__waits_for_memory)
{
	uint64_t all = FAKE_PAGES * FAKE_PAGE;
	uint64_t id = new_lease(&one, &stage_a, 1, "n");

	(void)new_lease(&two, &stage_a, FAKE_PAGE, "");
	ck_assert_int_eq(call_free(&stage_a, two.lease.lease), 0);
	send_resize(&two, &stage_a, id, all);
	ck_assert_uint_eq(two.replies, 0);
	ck_assert_int_eq(call_resize(&three, &stage_a, id, 5), -EBUSY);
	if (_i == 0) {
		stage_scrub();
		ck_assert_int_eq(two.err, 0);
		ck_assert_uint_eq(two.lease.bytes, all);
	} else if (_i == 1) {
		stage_pass(10000);
		ck_assert_int_eq(two.err, -ENOSPC);
		ck_assert_int_eq(call_resize(&three, &stage_a, id, 5), 0);
	} else if (_i == 2) {
		ck_assert_int_eq(call_free(&stage_a, id), 0);
		ck_assert_int_eq(two.err, -ESTALE);
	} else {
		(void)lease_waiter_cancel(&two.waiter);
		ck_assert_uint_eq(two.replies, 0);
		ck_assert_int_eq(call_resize(&three, &stage_a, id, 5), 0);
	}
	if (_i < 3)
		ck_assert_uint_eq(two.replies, 1);
	if (_i != 2)
		ck_assert_int_eq(call_free(&stage_a, id), 0);
}
END_TEST

START_TEST(grow__goes_on_when_cancelled)
{
	uint64_t id = new_lease(&one, &stage_a, 100, "n");

	send_resize(&two, &stage_a, id, 9000);
	(void)lease_waiter_cancel(&two.waiter);
	fake_fabric_settle();
	ck_assert_int_eq(call_rekey(&three, &stage_a, id), 0);
	ck_assert_uint_eq(three.lease.bytes, 9000);
	ck_assert_int_eq(call_resize(&three, &stage_a, id, 50), 0);
	ck_assert_int_eq(call_free(&stage_a, id), 0);
}
END_TEST

START_TEST(trim__ends_keys_beyond_the_new_end)
{
	uint64_t id, old_a, old_b;

	fake_pools_reset(3);
	id = new_lease(&one, &stage_a, 4 * FAKE_PAGE, "n");
	ck_assert_int_eq(call_attach(&two, &stage_b, "n", STAGE_RW), 0);
	ck_assert_uint_eq(one.lease.n_segments, 2);
	old_a = one.lease.keys[0].rkey;
	old_b = two.lease.keys[0].rkey;
	send_resize(&three, &stage_a, id, 100);
	ck_assert(!fake_fabric_key_works(old_a, 1));
	ck_assert(!fake_fabric_key_works(old_b, 1));
	/* the reply comes when the last old key is dead */
	ck_assert_uint_eq(fake_fabric_alive(), 5);
	for (int i = 0; i < 4; i++) {
		ck_assert_uint_eq(three.replies, 0);
		ck_assert(fake_fabric_step(_i ? 0 : 4));
	}
	fake_fabric_settle();
	ck_assert_uint_eq(three.replies, 1);
	ck_assert_uint_eq(three.lease.n_keys, 1);
	ck_assert(fake_fabric_key_works(three.lease.keys[0].rkey, 100));
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert_uint_eq(stage_changed.n, 1);
	ck_assert_uint_eq(stage_changed.reason, WIRE_REASON_TRIMMED);
	ck_assert_int_eq(call_rekey(&two, &stage_b, id), 0);
	ck_assert_uint_eq(two.lease.bytes, 100);
	ck_assert_uint_eq(two.lease.n_keys, 1);
	ck_assert_int_eq(call_resize(&three, &stage_a, id, 100), 0);
	ck_assert_int_eq(call_free(&stage_b, id), 0);
}
END_TEST

static uint64_t resized(uint64_t id, uint64_t bytes)
{
	ck_assert_int_eq(call_resize(&two, &stage_a, id, bytes), 0);
	ck_assert_uint_eq(two.lease.n_keys, 1);
	return two.lease.keys[0].rkey;
}

START_TEST(trim__spares_keys_that_end_before_the_new_end)
{
	uint64_t id = new_lease(&one, &stage_a, 100, ""), cut;
	const uint64_t first = one.lease.keys[0].rkey, second = resized(id, 200),
		       third = resized(id, 300);

	ck_assert_uint_eq(resized(id, 200), second);
	ck_assert(!fake_fabric_key_works(third, 1));
	ck_assert(fake_fabric_key_works(second, 200));
	cut = resized(id, 150);
	ck_assert(!fake_fabric_key_works(second, 1));
	ck_assert(fake_fabric_key_works(cut, 150));
	ck_assert(fake_fabric_key_works(first, 100));
	(void)resized(id, 99);
	ck_assert(!fake_fabric_key_works(first, 1));
	ck_assert_uint_eq(fake_fabric_alive(), 1);
}
END_TEST

START_TEST(trim__then_grow_reads_as_zero)
{
	uint64_t id = new_lease(&one, &stage_a, 3 * FAKE_PAGE, "");

	memset(lease_addr(&one, 0), 7, 3 * FAKE_PAGE);
	ck_assert_int_eq(call_resize(&two, &stage_a, id, FAKE_PAGE + 100), 0);
	/* the last page is freed; the rest of the page before it is kept */
	ck_assert_uint_eq(fake_pools_lent(), 2);
	ck_assert_uint_eq(fake_pools_dirty(), 1);
	ck_assert_int_eq(call_resize(&two, &stage_a, id, 2 * FAKE_PAGE), 0);
	ck_assert_uint_eq(two.lease.n_segments, 1);
	ck_assert_int_eq(lease_addr(&two, 0)[FAKE_PAGE + 99], 7);
	ck_assert(zero(lease_addr(&two, 0) + FAKE_PAGE + 100, FAKE_PAGE - 100));
	ck_assert_int_eq(call_resize(&two, &stage_a, id, 3 * FAKE_PAGE), 0);
	ck_assert_uint_eq(two.lease.n_segments, 2);
	ck_assert_uint_eq(two.lease.segments[1].bytes, FAKE_PAGE);
	ck_assert(zero(lease_addr(&two, 1), FAKE_PAGE));
	ck_assert_uint_eq(fake_pools_lent(), 3);
}
END_TEST

/* Memory that the pool cannot take back is used again, zeroed. */
START_TEST(trim__then_grow_zeroes_kept_memory)
{
	uint64_t id;

	fake_pools_cut(false);
	id = new_lease(&one, &stage_a, 3 * FAKE_PAGE, "");
	memset(lease_addr(&one, 0), 7, 3 * FAKE_PAGE);
	ck_assert_int_eq(call_resize(&two, &stage_a, id, 100), 0);
	ck_assert_uint_eq(fake_pools_lent(), 3);
	ck_assert_int_eq(call_resize(&two, &stage_a, id, 2 * FAKE_PAGE), 0);
	ck_assert_int_eq(call_resize(&two, &stage_a, id, 3 * FAKE_PAGE), 0);
	ck_assert_uint_eq(two.lease.n_segments, 1);
	ck_assert_int_eq(lease_addr(&two, 0)[99], 7);
	ck_assert(zero(lease_addr(&two, 0) + 100, 3 * FAKE_PAGE - 100));
}
END_TEST

/* A key beyond the new end may still write, so the lease does not get that memory
 * again. */
START_TEST(grow__after_a_cancelled_trim_gets_other_memory)
{
	uint64_t id = new_lease(&one, &stage_a, FAKE_PAGE, "");

	send_resize(&two, &stage_a, id, 100);
	(void)lease_waiter_cancel(&two.waiter);
	send_resize(&two, &stage_a, id, 200);
	fake_fabric_settle();
	ck_assert_int_eq(two.err, 0);
	ck_assert_uint_eq(two.lease.n_segments, 2);
	ck_assert_uint_eq(two.lease.segments[0].bytes, 100);
	ck_assert_uint_eq(two.lease.segments[1].bytes, 100);
}
END_TEST

START_TEST(attach__during_a_trim_has_the_new_size)
{
	uint64_t id = new_lease(&one, &stage_a, 3 * FAKE_PAGE, "n");

	send_attach(&two, &stage_b, "n");
	send_resize(&three, &stage_a, id, 100);
	for (unsigned pick = (unsigned)_i; fake_fabric_step(pick); pick += 3)
		;
	expect_reply(&two, 0);
	ck_assert_uint_eq(two.lease.bytes, 100);
	ck_assert_uint_eq(two.lease.n_keys, 1);
	ck_assert(fake_fabric_key_works(two.lease.keys[0].rkey, 100));
	ck_assert_uint_eq(three.replies, 1);
	ck_assert_int_eq(call_free(&stage_b, id), 0);
}
END_TEST

/* ---- random requests ---- */

#define N_CALLS 16

static struct call calls[N_CALLS];
static unsigned n_requests;

/* A call that is unused or has its reply; NULL: none. */
static struct call *unused_call(void)
{
	for (unsigned i = 0; i < N_CALLS; i++)
		if (!calls[i].waiter.done || calls[i].replies)
			return &calls[i];
	return NULL;
}

static uint64_t random_id(void)
{
	return 7 + (uint64_t)(rand() % 40);
}

static void random_request(struct call *at)
{
	static const char *const names[] = { "", "a", "b", "c" };
	struct lease_client *client = rand() % 2 ? &stage_a : &stage_b;
	const char *name = names[rand() % 4];
	struct lease_params params = { .bytes = (uint64_t)(rand() % (30 * FAKE_PAGE)),
				       .node = -1,
				       .name = name };
	struct lease_waiter *waiter = call_begin(at);
	int err = 0;

	switch (rand() % 9) {
	case 0:
	case 1:
		err = lease_allocate(stage_leases, client, &params, waiter);
		break;
	case 2:
		err = lease_attach(stage_leases, client, &stage_own, name,
				   rand() % 2 ? STAGE_RW : WIRE_RIGHT_READ, waiter);
		break;
	case 3:
		err = lease_reattach(stage_leases, client, random_id(), waiter);
		break;
	case 4:
		err = lease_detach(stage_leases, client, random_id(), false, waiter);
		break;
	case 5:
		err = lease_free(stage_leases, client, random_id(), waiter);
		break;
	case 6:
		err = lease_rename(stage_leases, client, random_id(),
				   names[1 + rand() % 3], rand() % 2, waiter);
		break;
	default:
		err = lease_resize(stage_leases, client, random_id(), params.bytes,
				   waiter);
		break;
	}
	n_requests++;
	if (err) {
		ck_assert_uint_eq(at->replies, 0);
		at->replies = 1;
	}
	ck_assert_uint_le(at->replies, 1);
}

static void random_disturbance(void)
{
	struct lease_client *client = rand() % 2 ? &stage_a : &stage_b;
	unsigned i = (unsigned)rand() % N_CALLS;

	switch (rand() % 8) {
	case 0:
		fake_fabric_fail_reg((unsigned)rand() % 4, -ENOMEM);
		break;
	case 1:
		fake_fabric_fail_event((unsigned)rand() % 4, -EIO);
		break;
	case 2:
		if (calls[i].waiter.done && !calls[i].replies) {
			(void)lease_waiter_cancel(&calls[i].waiter);
			calls[i].replies = 1;
		}
		break;
	case 3:
		if (rand() % 4 == 0) {
			stage_fence(client);
			stage_connect(client, (unsigned)rand() % 3);
		}
		break;
	case 4:
		stage_pass((uint64_t)(rand() % 4000));
		break;
	default:
		fake_pools_scrub();
		leases_retry(stage_leases);
		break;
	}
}

START_TEST(random_requests__leave_no_keys_and_no_memory)
{
	srand((unsigned)_i);
	memset(calls, 0, sizeof(calls));
	fake_pools_reset(_i % 2 ? 5 : 0);
	/* for keys without events */
	fake_fabric_keep_keys((unsigned)_i % 3);
	for (unsigned i = 0; i < 600; i++) {
		struct call *at = unused_call();

		if (at)
			random_request(at);
		if (rand() % 3 == 0)
			random_disturbance();
		for (int k = rand() % 4; k > 0; k--)
			(void)fake_fabric_step((unsigned)rand());
	}
	fake_fabric_settle();
	stage_pass(20000);
	fake_fabric_settle();
	ck_assert_uint_gt(n_requests, 100);
	for (unsigned i = 0; i < N_CALLS; i++)
		ck_assert(!calls[i].waiter.done || calls[i].replies == 1);
	for (const char *name = "abc"; *name; name++) {
		const char text[] = { *name, '\0' };

		if (lease_remove(&stage_tenant, text, call_begin(&one)) == 0)
			fake_fabric_settle();
	}
}
END_TEST

/* Whatever length is asked for, it is had or refused, and then the lease is as it was. */
START_TEST(resize__to_borders_is_right_or_refused)
{
	const uint64_t lengths[] = { FAKE_PAGES * FAKE_PAGE };
	const struct borders borders = { lengths, 1 };
	struct lease_status status;

	(void)new_lease(&one, &stage_a, FAKE_PAGE, "");
	for (unsigned i = 0; i < borders_count(&borders); i++) {
		uint64_t bytes = border_at(&borders, i);
		bool fits = bytes <= FAKE_PAGES * FAKE_PAGE;

		ck_assert_int_eq(call_resize(&two, &stage_a, one.lease.lease, bytes),
				 fits ? 0 : -ENOSPC);
		ck_assert(stage_status(one.lease.lease, &status));
		ck_assert_uint_eq(status.bytes, fits ? bytes : FAKE_PAGE);
		ck_assert_int_eq(
			call_resize(&two, &stage_a, one.lease.lease, FAKE_PAGE), 0);
		stage_scrub();
	}
	ck_assert_uint_eq(fake_pools_lent(), 1);
}
END_TEST

/* For both fabrics. */
static void add_common(TCase *tc)
{
	tcase_add_test(tc, grow__uses_the_last_page_first);
	tcase_add_loop_test(tc, grow__keeps_the_latest_16_old_keys, 1, 3);
	tcase_add_test(tc, grow__sends_an_event_to_other_clients);
	tcase_add_test(tc, grow__from_no_bytes_and_trim_to_no_bytes);
	tcase_add_loop_test(tc, grow__is_undone_when_registration_fails, 0, 4);
	tcase_add_test(tc, trim__spares_keys_that_end_before_the_new_end);
	tcase_add_test(tc, trim__then_grow_reads_as_zero);
	tcase_add_loop_test(tc, random_requests__leave_no_keys_and_no_memory, 0, 60);
}

int main(void)
{
	TCase *tc = unit_case("resize", stage_setup, stage_teardown),
	      *now = unit_case("now", stage_setup_now, stage_teardown);

	add_common(tc);
	tcase_add_test(tc, resize__to_borders_is_right_or_refused);
	tcase_add_test(tc, grow__has_limits);
	tcase_add_test(tc, grow__ends_at_the_last_segment);
	tcase_add_loop_test(tc, grow__waits_for_memory, 0, 4);
	tcase_add_test(tc, grow__goes_on_when_cancelled);
	tcase_add_loop_test(tc, trim__ends_keys_beyond_the_new_end, 0, 2);
	tcase_add_test(tc, trim__then_grow_zeroes_kept_memory);
	tcase_add_test(tc, grow__after_a_cancelled_trim_gets_other_memory);
	tcase_add_loop_test(tc, attach__during_a_trim_has_the_new_size, 0, 6);
	add_common(now);
	return unit_main();
}
