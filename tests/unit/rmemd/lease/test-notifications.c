/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions watch leases and are told of their notifications. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit/rmemd/control-stage.h"
#include "rmemd/lease/lease_client.h"
#include "unit/unit.h"

#define RW (WIRE_RIGHT_READ | WIRE_RIGHT_WRITE)

static struct client one, two, three;
static uint64_t key; /* through which the lease that was lent last is notified of */

static int ask(struct client *client, enum wire_type type, uint64_t lease)
{
	struct wire_msg *msg = message(type);

	msg->watch.lease = lease;
	client_send(client, msg);
	if (client->answer.type == WIRE_TYPE_error)
		return -(int)client->answer.error.code;
	ck_assert_int_eq((int)client->answer.type, (int)WIRE_TYPE_ok);
	return 0;
}

static void watch(struct client *client, uint64_t lease)
{
	ck_assert_int_eq(ask(client, WIRE_TYPE_watch, lease), 0);
}

/* A client with a channel, so that its leases have keys. */
static void arrive(struct client *client)
{
	client_open(client);
	(void)client_channel(client, 0);
}

static uint64_t lend(struct client *client, const char *name)
{
	uint64_t lease = client_allocate(client, 100, name);

	key = client->answer.lease.keys[0].rkey;
	return lease;
}

/* Returns its key. */
static uint64_t attach(struct client *client, const char *name, unsigned rights)
{
	struct wire_msg *msg = message(WIRE_TYPE_attach);

	(void)strcpy(msg->attach.name, name);
	msg->attach.rights = (uint8_t)rights;
	return client_ask(client, msg, WIRE_TYPE_lease)->lease.keys[0].rkey;
}

static void notify(uint64_t rkey, uint32_t value)
{
	ck_assert(fake_fabric_notify(rkey, value, 0));
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
	uint64_t lease, other_key, third_key;

	arrive(&one);
	arrive(&two);
	arrive(&three);
	(void)lend(&one, "other");
	other_key = key;
	lease = lend(&one, "named");
	(void)attach(&two, "named", WIRE_RIGHT_READ);
	third_key = attach(&three, "named", RW);
	watch(&one, lease);
	watch(&two, lease);
	/* again: nothing changes */
	watch(&two, lease);
	notify(key, 7);
	notify(third_key, UINT32_MAX);
	notify(other_key, 9);
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

	arrive(&one);
	arrive(&two);
	lease = lend(&one, "named");
	ck_assert_int_eq(ask(&two, WIRE_TYPE_watch, lease), -ESTALE);
	ck_assert_int_eq(ask(&two, WIRE_TYPE_unwatch, lease), -ESTALE);
	ck_assert_int_eq(ask(&two, WIRE_TYPE_watch, 0), -ESTALE);
	ck_assert_int_eq(ask(&two, WIRE_TYPE_watch, UINT64_MAX), -ESTALE);
	notify(key, 1);
	deliver();
	ck_assert_uint_eq(two.events, 0);
}
END_TEST

/* Keys of who has it for reading only do not serve to notify. */
START_TEST(notify__needs_the_right_to_write)
{
	uint64_t lease, rkey;

	arrive(&one);
	arrive(&two);
	lease = lend(&one, "named");
	rkey = attach(&two, "named", WIRE_RIGHT_READ);
	watch(&one, lease);
	ck_assert(!fake_fabric_notify(rkey, 1, 0));
	deliver();
	ck_assert_uint_eq(one.events, 0);
}
END_TEST

/* What the fabric had no room for is told to all who watch. */
START_TEST(notify__passes_on_what_was_lost_before)
{
	uint64_t lease;

	arrive(&one);
	arrive(&two);
	lease = lend(&one, "named");
	(void)attach(&two, "named", WIRE_RIGHT_READ);
	watch(&one, lease);
	watch(&two, lease);
	two.busy = true;
	for (uint32_t i = 0; i < LEASE_CLIENT_NOTICES_MAX; i++)
		notify(key, i);
	ck_assert(fake_fabric_notify(key, 10, 3));
	ck_assert(fake_fabric_notify(key, 11, UINT32_MAX - 7));
	deliver();
	expect(&one, 0, lease, 10, 3);
	expect(&one, 1, lease, 11, UINT32_MAX - 7);
	two.busy = false;
	session_connection_idle(&two.connection);
	expect(&two, 0, lease, 11, UINT32_MAX - 3);
	two.busy = true;
	for (uint32_t i = 0; i < LEASE_CLIENT_NOTICES_MAX; i++)
		notify(key, i);
	ck_assert(fake_fabric_notify(key, 12, UINT32_MAX));
	ck_assert(fake_fabric_notify(key, 13, 9));
	two.busy = false;
	session_connection_idle(&two.connection);
	expect(&two, 0, lease, 13, UINT32_MAX);
}
END_TEST

START_TEST(unwatch__forgets_what_waits)
{
	uint64_t lease, other, lease_key, other_key;

	arrive(&one);
	lease = lend(&one, "");
	lease_key = key;
	other = lend(&one, "");
	other_key = key;
	watch(&one, lease);
	watch(&one, other);
	notify(lease_key, 1);
	notify(other_key, 2);
	ck_assert_int_eq(ask(&one, WIRE_TYPE_unwatch, lease), 0);
	ck_assert_int_eq(ask(&one, WIRE_TYPE_unwatch, lease), 0);
	notify(lease_key, 3);
	deliver();
	ck_assert_uint_eq(one.events, 1);
	ck_assert_uint_eq(one.event.notified.n_notices, 1);
	expect(&one, 0, other, 2, 0);
	watch(&one, lease);
	notify(lease_key, 4);
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

	arrive(&one);
	arrive(&two);
	lease = lend(&two, "named");
	(void)attach(&one, "named", RW);
	watch(&one, lease);
	notify(key, 1);
	msg = message(types[_i]);
	msg->free.lease = lease;
	client_send(ender, msg);
	/* through a key that is dying */
	notify(key, 2);
	fake_fabric_settle();
	deliver();
	if (_i == 2)
		ck_assert_int_eq((int)one.event.type, (int)WIRE_TYPE_revoked);
	ck_assert_uint_eq(one.events, _i == 2);
	ck_assert_int_eq(ask(&one, WIRE_TYPE_watch, lease), -ESTALE);
}
END_TEST

/* It was sent before its sender gave the lease up. */
START_TEST(notify__through_a_key_that_is_dying)
{
	struct wire_msg *msg;
	uint64_t lease, rkey;

	arrive(&one);
	arrive(&two);
	lease = lend(&one, "named");
	rkey = attach(&two, "named", RW);
	watch(&one, lease);
	msg = message(WIRE_TYPE_detach);
	msg->detach.lease = lease;
	client_send(&two, msg);
	notify(rkey, 5);
	deliver();
	expect(&one, 0, lease, 5, 0);
	fake_fabric_settle();
}
END_TEST

START_TEST(watch__ends_with_the_session)
{
	uint64_t lease;

	arrive(&one);
	arrive(&two);
	lease = lend(&one, "named");
	(void)attach(&two, "named", WIRE_RIGHT_READ);
	watch(&two, lease);
	notify(key, 1);
	client_send(&two, message(WIRE_TYPE_bye));
	notify(key, 2);
	deliver();
	fake_fabric_settle();
	notify(key, 3);
	deliver();
	ck_assert_uint_eq(two.events, 0);
}
END_TEST

START_TEST(busy__connections_get_the_rest_later)
{
	uint64_t lease, other, lease_key;

	arrive(&one);
	arrive(&two);
	lease = lend(&one, "named");
	lease_key = key;
	other = lend(&one, "other");
	(void)attach(&two, "named", WIRE_RIGHT_READ);
	(void)attach(&two, "other", WIRE_RIGHT_READ);
	watch(&one, lease);
	watch(&two, lease);
	watch(&two, other);
	two.busy = true;
	for (uint32_t i = 0; i < LEASE_CLIENT_NOTICES_MAX + 50; i++) {
		notify(lease_key, i);
		deliver();
		/* the others do not suffer */
		expect(&one, 0, lease, i, 0);
	}
	notify(key, 3);
	deliver();
	ck_assert_uint_eq(two.events, 0);
	two.busy = false;
	session_connection_idle(&two.connection);
	/* as many as an event carries, then those that had no room */
	ck_assert_uint_eq(two.events, 2);
	expect(&two, 0, lease, LEASE_CLIENT_NOTICES_MAX + 49, 49);
	expect(&two, 1, other, 3, 0);
	notify(lease_key, 99);
	deliver();
	expect(&two, 0, lease, 99, 0);
}
END_TEST

/* More in one turn than there is room for: they are told in between. */
START_TEST(burst__is_told_whole)
{
	uint64_t lease;
	uint32_t sent = 3 * LEASE_CLIENT_NOTICES_MAX + 5;

	arrive(&one);
	lease = lend(&one, "");
	watch(&one, lease);
	for (uint32_t i = 0; i < sent; i++)
		notify(key, i);
	deliver();
	ck_assert_uint_eq(one.events, 4);
	expect(&one, 4, lease, sent - 1, 0);
}
END_TEST

START_TEST(resume__keeps_watches_and_what_came_meanwhile)
{
	uint64_t lease;

	arrive(&one);
	arrive(&two);
	lease = lend(&one, "named");
	(void)attach(&two, "named", WIRE_RIGHT_READ);
	watch(&two, lease);
	client_lose(&two);
	fake_fabric_settle();
	for (uint32_t i = 0; i < LEASE_CLIENT_NOTICES_MAX + 10; i++)
		notify(key, i);
	deliver();
	client_resume(&three, &two);
	ck_assert_uint_eq(three.events, 2);
	ck_assert_uint_eq(three.event.notified.n_notices, 1);
	expect(&three, 0, lease, LEASE_CLIENT_NOTICES_MAX + 9, 9);
	notify(key, 5);
	deliver();
	expect(&three, 0, lease, 5, 0);
}
END_TEST

/* A session that never comes back takes what waits for it along. */
START_TEST(fenced__sessions_end_with_their_notices)
{
	uint64_t lease;

	arrive(&one);
	arrive(&two);
	lease = lend(&one, "named");
	(void)attach(&two, "named", WIRE_RIGHT_READ);
	watch(&two, lease);
	client_lose(&two);
	for (uint32_t i = 0; i < 2 * LEASE_CLIENT_NOTICES_MAX; i++)
		notify(key, i);
}
END_TEST

#define MANY 100
#define ROUNDS 5

/* What many watches make the daemon keep is bounded by the attachments. */
START_TEST(watches__are_as_many_as_attachments)
{
	static uint64_t leases[MANY], keys[MANY];
	struct client *const clients[] = { &one, &two, &three };

	for (unsigned k = 0; k < 3; k++)
		arrive(clients[k]);
	for (unsigned i = 0; i < MANY; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "%u", i);
		leases[i] = lend(&one, name);
		keys[i] = key;
		(void)attach(&two, name, WIRE_RIGHT_READ);
		(void)attach(&three, name, WIRE_RIGHT_READ);
	}
	for (unsigned k = 0; k < 3; k++)
		for (unsigned i = 0; i < MANY; i++)
			watch(clients[k], leases[i]);
	three.busy = true;
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < MANY; i++)
			notify(keys[i], round);
	three.busy = false;
	session_connection_idle(&three.connection);
	deliver();
	/* the oldest, and then the latest of each lease, those first that had no room
	 * first */
	ck_assert_uint_eq(three.events,
			  (LEASE_CLIENT_NOTICES_MAX + MANY) / WIRE_NOTICES_MAX + 1);
	expect(&three, three.event.notified.n_notices - 1u,
	       leases[LEASE_CLIENT_NOTICES_MAX % MANY - 1], ROUNDS - 1, 1);
	expect(&one, one.event.notified.n_notices - 1u, leases[MANY - 1], ROUNDS - 1,
	       0);
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
	tcase_add_test(tc, notify__passes_on_what_was_lost_before);
	tcase_add_test(tc, unwatch__forgets_what_waits);
	tcase_add_loop_test(tc, watch__ends_with_the_attachment, 0, 3);
	tcase_add_test(tc, notify__through_a_key_that_is_dying);
	tcase_add_test(tc, watch__ends_with_the_session);
	tcase_add_test(tc, busy__connections_get_the_rest_later);
	tcase_add_test(tc, burst__is_told_whole);
	tcase_add_test(tc, resume__keeps_watches_and_what_came_meanwhile);
	tcase_add_test(tc, fenced__sessions_end_with_their_notices);
	tcase_add_test(tc, watches__are_as_many_as_attachments);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
