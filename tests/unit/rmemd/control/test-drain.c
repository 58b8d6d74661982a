/* SPDX-License-Identifier: BSD-3-Clause */
/* Draining: what is refused, what goes on, what clients are told, and the end. */
#include <errno.h>
#include <stdint.h>

#include "rmemd/control/drain.h"
#include "unit/rmemd/control-stage.h"
#include "unit/unit.h"

static struct client one, two;
static struct drain *const drain = &stage_control.drain;
static unsigned n_drained, events_before; /* of the client, when it was drained */

static void on_drained(void *user)
{
	ck_assert_ptr_eq(user, &n_drained);
	n_drained++;
	events_before = one.events;
}

static void setup(void)
{
	control_setup();
	stage_control.base = event_base_new();
	ck_assert_ptr_nonnull(stage_control.base);
	stage_control.drained = on_drained;
	stage_control.user = &n_drained;
	ck_assert_int_eq(drain_open(drain, &stage_control), 0);
	client_init(&one);
	client_init(&two);
	n_drained = 0;
}

static void teardown(void)
{
	drain_close(drain);
	control_teardown();
	event_base_free(stage_control.base);
}

/* Time passes, and the loop turns. */
static void turn(uint64_t ms)
{
	pass(ms);
	ck_assert_int_ge(event_base_loop(stage_control.base, EVLOOP_NONBLOCK), 0);
	pass(0);
	ck_assert_int_ge(event_base_loop(stage_control.base, EVLOOP_NONBLOCK), 0);
}

START_TEST(drain__grants_nothing_new)
{
	uint64_t lease;

	client_open_connected(&one);
	client_open_connected(&two);
	lease = client_allocate(&one, 100, "named");
	ck_assert_int_eq(drain_begin(drain, DRAIN_NO_DEADLINE), 0);
	turn(0);
	ck_assert_uint_eq(
		client_event(&one, 1, WIRE_TYPE_draining)->draining.deadline_ms,
		UINT32_MAX);
	(void)client_event(&two, 1, WIRE_TYPE_draining);
	client_fail(&one, to_allocate(100, ""), -ESHUTDOWN);
	ck_assert_str_eq(one.answer.error.text, LEASES_DRAINING);
	client_fail(&one, to_resize(lease, 5 * FAKE_PAGE), -ESHUTDOWN);
	ck_assert_uint_eq(stage_control.counters.requests_refused[REQUEST_DRAINING], 2);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	/* all else goes on, with other keys too */
	client_ok(&two, message(WIRE_TYPE_ping));
	(void)client_ask(&two, to_attach("named"), WIRE_TYPE_lease);
	(void)client_channel(&two, 1);
	turn(1);
	ck_assert_uint_eq(n_drained, 0);
	ck_assert_uint_eq(one.events + two.events, 2);
	client_ok(&one, lease_message(WIRE_TYPE_free, lease));
	turn(1);
	ck_assert_uint_eq(n_drained, 1);
	turn(1);
	ck_assert_uint_eq(n_drained, 1);
	ck_assert_int_eq(drain_end(drain), -EAGAIN);
}
END_TEST

START_TEST(drain__opens_no_session)
{
	client_open(&one);
	(void)client_allocate(&one, 100, "named");
	ck_assert_int_eq(drain_begin(drain, DRAIN_NO_DEADLINE), 0);
	client_fail(&two, hello(), -ESHUTDOWN);
	ck_assert_uint_eq(two.closed, 1);
	ck_assert_uint_eq(stage_control.counters.refused[REFUSAL_DRAINING], 1);
	client_lose(&two);
	/* a session that resumes is told, also if it was before */
	turn(0);
	ck_assert_uint_eq(one.events, 1);
	client_lose(&one);
	client_init(&two);
	client_resume(&two, &one);
	(void)client_event(&two, 1, WIRE_TYPE_draining);
	client_ok(&two, by_name(WIRE_TYPE_remove, "named"));
}
END_TEST

START_TEST(drain__without_leases_ends_in_the_next_turn)
{
	client_open(&one);
	ck_assert_int_eq(drain_begin(drain, DRAIN_NO_DEADLINE), 0);
	ck_assert_uint_eq(n_drained, 0);
	turn(0);
	ck_assert_uint_eq(n_drained, 1);
}
END_TEST

START_TEST(drain__is_taken_back)
{
	ck_assert_int_eq(drain_end(drain), 0);
	client_open(&one);
	client_lose(&one);
	client_open(&two);
	(void)client_allocate(&two, 100, "named");
	ck_assert_int_eq(drain_begin(drain, 5000), 0);
	turn(0);
	ck_assert_uint_eq(
		client_event(&two, 1, WIRE_TYPE_draining)->draining.deadline_ms, 5000);
	ck_assert_uint_eq(drain_left_ms(drain), 5000);
	ck_assert_int_eq(drain_end(drain), 0);
	ck_assert_uint_eq(drain_left_ms(drain), DRAIN_NO_DEADLINE);
	turn(0);
	(void)client_event(&two, 2, WIRE_TYPE_serving);
	(void)client_allocate(&two, 100, "");
	/* one that was not told of it is not told of its end */
	client_init(&one);
	client_open(&one);
	client_ok(&two, message(WIRE_TYPE_ping));
	turn(1);
	ck_assert_uint_eq(one.events, 0);
	client_ok(&two, by_name(WIRE_TYPE_remove, "named"));
	ck_assert_uint_eq(n_drained, 0);
}
END_TEST

START_TEST(drain__revokes_at_its_deadline)
{
	uint64_t key;

	client_open_connected(&one);
	for (unsigned i = 0; i < 40; i++)
		(void)client_allocate(&one, 1, "");
	key = one.answer.lease.keys[0].rkey;
	ck_assert_int_eq(drain_begin(drain, DRAIN_NO_DEADLINE), 0);
	turn(0);
	/* another deadline, which all are told */
	ck_assert_int_eq(drain_begin(drain, 1000), 0);
	turn(0);
	ck_assert_uint_eq(
		client_event(&one, 2, WIRE_TYPE_draining)->draining.deadline_ms, 1000);
	ck_assert_uint_eq(leases_count(stage_control.leases), 40);
	stage_now_ms += 1000;
	drain_none_left(drain); /* only has it look again */
	ck_assert_int_ge(event_base_loop(stage_control.base, EVLOOP_NONBLOCK), 0);
	/* the turns are over: later ones tell the client */
	turn_begin(&stage_control.turn, 0);
	ck_assert(!turn_over(&stage_control.turn));
	stage_now_ms++;
	while (leases_count(stage_control.leases) > 0)
		slices_run(&stage_control.slices);
	ck_assert_int_ge(event_base_loop(stage_control.base, EVLOOP_NONBLOCK), 0);
	ck_assert_uint_eq(n_drained, 0);
	turn_begin(&stage_control.turn, 0);
	while (n_drained == 0)
		turn(0);
	ck_assert_uint_eq(events_before, 42);
	ck_assert_uint_eq(client_event(&one, 42, WIRE_TYPE_revoked)->revoked.reason,
			  WIRE_REASON_REVOKED);
	fake_fabric_settle();
	ck_assert(!fake_fabric_key_works(key, 1));
	ck_assert_uint_eq(n_drained, 1);
}
END_TEST

/* A request that was under way when the deadline came gets its lease, and loses it. */
START_TEST(drain__revokes_what_is_granted_after_its_deadline)
{
	client_open_connected(&one);
	client_send(&one, to_allocate(100, ""));
	ck_assert_int_eq(drain_begin(drain, 0), 0);
	turn(0);
	ck_assert_int_eq(drain_end(drain), -EBUSY);
	ck_assert_int_eq(drain_begin(drain, 1), -EBUSY);
	ck_assert_uint_eq(n_drained, 0);
	fake_fabric_settle();
	ck_assert_int_eq((int)one.answer.type, (int)WIRE_TYPE_lease);
	turn(0);
	fake_fabric_settle();
	turn(0);
	(void)client_event(&one, 2, WIRE_TYPE_revoked);
	ck_assert_uint_eq(n_drained, 1);
}
END_TEST

START_TEST(drain__fails_requests_that_wait_for_memory)
{
	uint64_t lease;

	client_open(&one);
	lease = client_allocate(&one, (uint64_t)FAKE_PAGES * FAKE_PAGE, "");
	client_ok(&one, lease_message(WIRE_TYPE_free, lease));
	client_send(&one, to_allocate(100, ""));
	ck_assert_int_eq((int)one.answer.type, (int)WIRE_TYPE_ok);
	ck_assert_int_eq(drain_begin(drain, DRAIN_NO_DEADLINE), 0);
	turn(0);
	ck_assert_int_eq((int)one.answer.type, (int)WIRE_TYPE_error);
	ck_assert_uint_eq(one.answer.error.code, WIRE_CODE_draining);
	turn(0);
	ck_assert_uint_eq(n_drained, 1);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("drain", setup, teardown);

	tcase_add_test(tc, drain__grants_nothing_new);
	tcase_add_test(tc, drain__opens_no_session);
	tcase_add_test(tc, drain__without_leases_ends_in_the_next_turn);
	tcase_add_test(tc, drain__is_taken_back);
	tcase_add_test(tc, drain__revokes_at_its_deadline);
	tcase_add_test(tc, drain__revokes_what_is_granted_after_its_deadline);
	tcase_add_test(tc, drain__fails_requests_that_wait_for_memory);
	return unit_main();
}
