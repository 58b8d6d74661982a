/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions watch leases and are told of their notifications. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control-stage.h"
#include "rmemd/lease/holder.h"
#include "unit.h"

static struct client one, two, three;

static int watch(struct client *client, enum wire_type type, uint64_t lease)
{
	struct wire_msg *msg = message(type);

	msg->watch.lease = lease;
	client_send(client, msg);
	if (client->answer.type == WIRE_TYPE_error)
		return -(int)client->answer.error.code;
	ck_assert_int_eq((int)client->answer.type, (int)WIRE_TYPE_ok);
	return 0;
}

static int notify(const struct client *client, uint64_t lease, uint32_t value)
{
	return lease_notify(stage_control.leases, session_holder(client->peer.session),
			    lease, value);
}

static void attach(struct client *client, const char *name, unsigned rights)
{
	struct wire_msg *msg = message(WIRE_TYPE_attach);

	(void)strcpy(msg->attach.name, name);
	msg->attach.rights = (uint8_t)rights;
	(void)client_ask(client, msg, WIRE_TYPE_lease);
}

static void deliver(void)
{
	sessions_deliver(stage_control.sessions);
}

/* The last event tells of this, as its i-th. */
static void expect(const struct client *client, unsigned i, uint64_t lease,
		   uint32_t value, uint32_t lost)
{
	const struct wire_notice *notice = &client->event.notified.notices[i];

	ck_assert_int_eq((int)client->event.type, (int)WIRE_TYPE_notified);
	ck_assert_uint_lt(i, client->event.notified.n_notices);
	ck_assert_uint_eq(notice->lease, lease);
	ck_assert_uint_eq(notice->value, value);
	ck_assert_uint_eq(notice->lost, lost);
}

START_TEST(watch__tells_all_who_watch_and_nobody_else)
{
	uint64_t lease, other;

	client_open(&one);
	client_open(&two);
	client_open(&three);
	lease = client_allocate(&one, 100, "named");
	other = client_allocate(&one, 100, "other");
	attach(&two, "named", WIRE_RIGHT_READ);
	attach(&three, "named", WIRE_RIGHT_READ | WIRE_RIGHT_WRITE);
	ck_assert_int_eq(watch(&one, WIRE_TYPE_watch, lease), 0);
	ck_assert_int_eq(watch(&two, WIRE_TYPE_watch, lease), 0);
	/* again: nothing changes */
	ck_assert_int_eq(watch(&two, WIRE_TYPE_watch, lease), 0);
	ck_assert_int_eq(notify(&one, lease, 7), 0);
	ck_assert_int_eq(notify(&three, lease, UINT32_MAX), 0);
	ck_assert_int_eq(notify(&one, other, 9), 0);
	ck_assert_uint_eq(one.events + two.events, 0);
	deliver();
	/* who notifies is told, too; all in one event */
	ck_assert_uint_eq(one.events, 1);
	ck_assert_uint_eq(one.event.notified.n_notices, 2);
	expect(&one, 0, lease, 7, 0);
	expect(&one, 1, lease, UINT32_MAX, 0);
	ck_assert_uint_eq(two.events, 1);
	ck_assert_uint_eq(two.event.notified.n_notices, 2);
	ck_assert_uint_eq(three.events, 0);
	deliver();
	ck_assert_uint_eq(one.events, 1);
}
END_TEST

START_TEST(watch__needs_the_lease)
{
	uint64_t lease;

	client_open(&one);
	client_open(&two);
	lease = client_allocate(&one, 100, "named");
	ck_assert_int_eq(watch(&two, WIRE_TYPE_watch, lease), -ESTALE);
	ck_assert_int_eq(watch(&two, WIRE_TYPE_unwatch, lease), -ESTALE);
	ck_assert_int_eq(watch(&two, WIRE_TYPE_watch, 0), -ESTALE);
	ck_assert_int_eq(watch(&two, WIRE_TYPE_watch, UINT64_MAX), -ESTALE);
	ck_assert_int_eq(notify(&one, lease, 1), 0);
	deliver();
	ck_assert_uint_eq(two.events, 0);
}
END_TEST

START_TEST(notify__needs_the_right_to_write)
{
	uint64_t lease;

	client_open(&one);
	client_open(&two);
	client_open(&three);
	lease = client_allocate(&one, 100, "named");
	attach(&two, "named", WIRE_RIGHT_READ);
	ck_assert_int_eq(watch(&one, WIRE_TYPE_watch, lease), 0);
	ck_assert_int_eq(notify(&two, lease, 1), -EACCES);
	ck_assert_int_eq(notify(&three, lease, 1), -ESTALE);
	ck_assert_int_eq(notify(&one, lease + 1, 1), -ESTALE);
	deliver();
	ck_assert_uint_eq(one.events, 0);
}
END_TEST

START_TEST(unwatch__forgets_what_waits)
{
	uint64_t lease, other;

	client_open(&one);
	lease = client_allocate(&one, 100, "");
	other = client_allocate(&one, 100, "");
	ck_assert_int_eq(watch(&one, WIRE_TYPE_watch, lease), 0);
	ck_assert_int_eq(watch(&one, WIRE_TYPE_watch, other), 0);
	ck_assert_int_eq(notify(&one, lease, 1), 0);
	ck_assert_int_eq(notify(&one, other, 2), 0);
	ck_assert_int_eq(watch(&one, WIRE_TYPE_unwatch, lease), 0);
	ck_assert_int_eq(watch(&one, WIRE_TYPE_unwatch, lease), 0);
	ck_assert_int_eq(notify(&one, lease, 3), 0);
	deliver();
	ck_assert_uint_eq(one.events, 1);
	ck_assert_uint_eq(one.event.notified.n_notices, 1);
	expect(&one, 0, other, 2, 0);
	ck_assert_int_eq(watch(&one, WIRE_TYPE_watch, lease), 0);
	ck_assert_int_eq(notify(&one, lease, 4), 0);
	deliver();
	expect(&one, 0, lease, 4, 0);
}
END_TEST

/* How it loses the lease: it detaches it, it frees it, another one does. */
START_TEST(watch__ends_with_the_attachment)
{
	static const enum wire_type types[] = { WIRE_TYPE_detach, WIRE_TYPE_free,
						WIRE_TYPE_free };
	struct client *ender = _i == 2 ? &two : &one;
	struct wire_msg *msg;
	uint64_t lease;

	client_open(&one);
	client_open(&two);
	lease = client_allocate(&two, 100, "named");
	attach(&one, "named", WIRE_RIGHT_READ | WIRE_RIGHT_WRITE);
	ck_assert_int_eq(watch(&one, WIRE_TYPE_watch, lease), 0);
	ck_assert_int_eq(notify(&two, lease, 1), 0);
	msg = message(types[_i]);
	msg->free.lease = lease;
	(void)client_ask(ender, msg, WIRE_TYPE_ok);
	deliver();
	if (_i == 2)
		ck_assert_int_eq((int)one.event.type, (int)WIRE_TYPE_revoked);
	else
		ck_assert_uint_eq(one.events, 0);
	ck_assert_int_eq(notify(&two, lease, 2), _i == 0 ? 0 : -ESTALE);
	deliver();
	ck_assert_uint_eq(one.events, _i == 2);
	ck_assert_int_eq(watch(&one, WIRE_TYPE_watch, lease), -ESTALE);
}
END_TEST

START_TEST(watch__ends_with_the_session)
{
	uint64_t lease;

	client_open(&one);
	client_open(&two);
	lease = client_allocate(&one, 100, "named");
	attach(&two, "named", WIRE_RIGHT_READ);
	ck_assert_int_eq(watch(&two, WIRE_TYPE_watch, lease), 0);
	ck_assert_int_eq(notify(&one, lease, 1), 0);
	client_send(&two, message(WIRE_TYPE_bye));
	ck_assert_int_eq(notify(&one, lease, 2), 0);
	deliver();
	fake_fabric_settle();
	ck_assert_int_eq(notify(&one, lease, 3), 0);
	deliver();
	ck_assert_uint_eq(two.events, 0);
}
END_TEST

START_TEST(busy__connections_get_the_rest_later)
{
	uint64_t lease, other;

	client_open(&one);
	client_open(&two);
	lease = client_allocate(&one, 100, "named");
	other = client_allocate(&one, 100, "other");
	attach(&two, "named", WIRE_RIGHT_READ);
	attach(&two, "other", WIRE_RIGHT_READ);
	ck_assert_int_eq(watch(&one, WIRE_TYPE_watch, lease), 0);
	ck_assert_int_eq(watch(&two, WIRE_TYPE_watch, lease), 0);
	ck_assert_int_eq(watch(&two, WIRE_TYPE_watch, other), 0);
	two.busy = true;
	for (uint32_t i = 0; i < HOLDER_NOTICES_MAX + 50; i++) {
		ck_assert_int_eq(notify(&one, lease, i), 0);
		deliver();
		/* the others do not suffer */
		expect(&one, 0, lease, i, 0);
	}
	ck_assert_int_eq(notify(&one, other, 3), 0);
	deliver();
	ck_assert_uint_eq(two.events, 0);
	two.busy = false;
	peer_idle(&two.peer);
	/* as many as an event carries, then those that had no room */
	ck_assert_uint_eq(two.events, 2);
	expect(&two, 0, lease, HOLDER_NOTICES_MAX + 49, 49);
	expect(&two, 1, other, 3, 0);
	ck_assert_int_eq(notify(&one, lease, 99), 0);
	deliver();
	expect(&two, 0, lease, 99, 0);
}
END_TEST

/* More in one turn than there is room for: they are told in between. */
START_TEST(burst__is_told_whole)
{
	uint64_t lease;
	uint32_t sent = 3 * HOLDER_NOTICES_MAX + 5;

	client_open(&one);
	lease = client_allocate(&one, 100, "");
	ck_assert_int_eq(watch(&one, WIRE_TYPE_watch, lease), 0);
	for (uint32_t i = 0; i < sent; i++)
		ck_assert_int_eq(notify(&one, lease, i), 0);
	deliver();
	ck_assert_uint_eq(one.events, 4);
	expect(&one, 4, lease, sent - 1, 0);
}
END_TEST

START_TEST(resume__keeps_watches_and_what_came_meanwhile)
{
	uint64_t lease;

	client_open(&one);
	client_open(&two);
	lease = client_allocate(&one, 100, "named");
	attach(&two, "named", WIRE_RIGHT_READ);
	ck_assert_int_eq(watch(&two, WIRE_TYPE_watch, lease), 0);
	client_lose(&two);
	fake_fabric_settle();
	for (uint32_t i = 0; i < HOLDER_NOTICES_MAX + 10; i++)
		ck_assert_int_eq(notify(&one, lease, i), 0);
	deliver();
	client_resume(&three, &two);
	ck_assert_uint_eq(three.events, 2);
	ck_assert_uint_eq(three.event.notified.n_notices, 1);
	expect(&three, 0, lease, HOLDER_NOTICES_MAX + 9, 9);
	ck_assert_int_eq(notify(&one, lease, 5), 0);
	deliver();
	expect(&three, 0, lease, 5, 0);
}
END_TEST

/* A session that never comes back takes what waits for it along. */
START_TEST(fenced__sessions_end_with_their_notices)
{
	uint64_t lease;

	client_open(&one);
	client_open(&two);
	lease = client_allocate(&one, 100, "named");
	attach(&two, "named", WIRE_RIGHT_READ);
	ck_assert_int_eq(watch(&two, WIRE_TYPE_watch, lease), 0);
	client_lose(&two);
	for (uint32_t i = 0; i < 2 * HOLDER_NOTICES_MAX; i++)
		ck_assert_int_eq(notify(&one, lease, i), 0);
}
END_TEST

/* What thousands of watches cost is what the attachments cost. */
START_TEST(watches__are_as_many_as_attachments)
{
	static uint64_t leases[900];
	static struct client *const clients[] = { &one, &two, &three };

	for (unsigned k = 0; k < 3; k++)
		client_open(clients[k]);
	for (unsigned i = 0; i < 900; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "%u", i);
		leases[i] = client_allocate(&one, 0, name);
		attach(&two, name, WIRE_RIGHT_READ);
		attach(&three, name, WIRE_RIGHT_READ);
	}
	for (unsigned k = 0; k < 3; k++)
		for (unsigned i = 0; i < 900; i++)
			ck_assert_int_eq(watch(clients[k], WIRE_TYPE_watch, leases[i]),
					 0);
	three.busy = true;
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < 900; i++)
			ck_assert_int_eq(notify(&one, leases[i], round), 0);
	three.busy = false;
	peer_idle(&three.peer);
	deliver();
	/* the oldest, and then the latest of each lease, those first that had no room
	 * first */
	ck_assert_uint_eq(three.events,
			  (HOLDER_NOTICES_MAX + 900) / WIRE_NOTICES_MAX + 1);
	expect(&three, three.event.notified.n_notices - 1u,
	       leases[HOLDER_NOTICES_MAX - 1], 2, 1);
	ck_assert_int_eq((int)one.event.type, (int)WIRE_TYPE_notified);
	expect(&one, one.event.notified.n_notices - 1u, leases[899], 2, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("watch");
	TCase *tc = tcase_create("watch");

	tcase_add_checked_fixture(tc, control_setup, control_teardown);
	tcase_add_test(tc, watch__tells_all_who_watch_and_nobody_else);
	tcase_add_test(tc, watch__needs_the_lease);
	tcase_add_test(tc, notify__needs_the_right_to_write);
	tcase_add_test(tc, unwatch__forgets_what_waits);
	tcase_add_loop_test(tc, watch__ends_with_the_attachment, 0, 3);
	tcase_add_test(tc, watch__ends_with_the_session);
	tcase_add_test(tc, busy__connections_get_the_rest_later);
	tcase_add_test(tc, burst__is_told_whole);
	tcase_add_test(tc, resume__keeps_watches_and_what_came_meanwhile);
	tcase_add_test(tc, fenced__sessions_end_with_their_notices);
	tcase_add_test(tc, watches__are_as_many_as_attachments);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
