/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions watch leases and receive their notifications. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "unit/rmemd/control-stage.h"
#include "rmemd/lease/lease_client.h"
#include "unit/unit.h"
#include "wire/errors.h"

#define RW (WIRE_RIGHT_READ | WIRE_RIGHT_WRITE)

static struct client one, two, three;
static uint64_t lease, key; /* "named", which client one has allocated */

/* Open a session with a channel, so that its leases have keys. */
static void open_with_channel(struct client *client)
{
	client_open(client);
	(void)client_channel(client, 0);
}

static uint64_t allocate(struct client *client, const char *name, uint64_t *ret_key)
{
	uint64_t id = client_allocate(client, 100, name);

	*ret_key = client->answer.lease.keys[0].rkey;
	return id;
}

static void setup(void)
{
	control_setup();
	open_with_channel(&one);
	open_with_channel(&two);
	lease = allocate(&one, "named", &key);
}

/* Returns 0 or the error of the reply. */
static int request(struct client *client, enum wire_type type, uint64_t id)
{
	struct wire_msg *msg = message(type);

	msg->watch.lease = id;
	client_send(client, msg);
	if (client->answer.type == WIRE_TYPE_error)
		return wire_code_errno(client->answer.error.code);
	ck_assert_int_eq((int)client->answer.type, (int)WIRE_TYPE_ok);
	return 0;
}

static void watch(struct client *client, uint64_t id)
{
	ck_assert_int_eq(request(client, WIRE_TYPE_watch, id), 0);
}

/* Returns its key. */
static uint64_t attach(struct client *client, const char *name, unsigned rights)
{
	struct wire_msg *msg = to_attach(name);

	msg->attach.rights = (uint8_t)rights;
	return client_ask(client, msg, WIRE_TYPE_lease)->lease.keys[0].rkey;
}

static void attach_and_watch(struct client *client, const char *name, uint64_t id)
{
	(void)attach(client, name, WIRE_RIGHT_READ);
	watch(client, id);
}

static void notify(uint64_t rkey, uint32_t value)
{
	ck_assert(fake_fabric_notify(rkey, value, 0));
}

static void deliver(void)
{
	slices_run(&stage_control.slices);
}

/* With the values 0 to n - 1, in as many turns as it takes that none is lost on the way. */
static void notify_times(uint64_t rkey, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		notify(rkey, i);
		if ((i + 1) % FABRIC_NOTIFICATIONS_MAX == 0)
			deliver();
	}
}

/* The connection of the client is not busy any more. */
static void set_idle(struct client *client)
{
	client->busy = false;
	session_connection_idle(&client->connection);
}

/* The last event of the client contains this notice as number i. */
static void expect(const struct client *client, unsigned i, uint64_t id, uint32_t value,
		   uint32_t lost)
{
	const struct wire_notice *notice = &client->event.notified.notices[i];

	ck_assert_int_eq((int)client->event.type, (int)WIRE_TYPE_notified);
	ck_assert_uint_lt(i, client->event.notified.n_notices);
	ck_assert_uint_eq(notice->lease, id);
	ck_assert_uint_eq(notice->value, value);
	ck_assert_uint_eq(notice->lost, lost);
}

START_TEST(watch__delivers_to_watching_sessions_only)
{
	uint64_t other_key, third_key;

	open_with_channel(&three);
	(void)allocate(&one, "other", &other_key);
	attach_and_watch(&two, "named", lease);
	third_key = attach(&three, "named", RW);
	watch(&one, lease);
	/* a second request changes nothing */
	watch(&two, lease);
	notify(key, 7);
	notify(third_key, UINT32_MAX);
	notify(other_key, 9);
	ck_assert_uint_eq(one.events + two.events, 0);
	deliver();
	/* one event for both notifications; the notifying client gets it, too */
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

START_TEST(watch__needs_an_attached_lease)
{
	ck_assert_int_eq(request(&two, WIRE_TYPE_watch, lease), -ESTALE);
	ck_assert_int_eq(request(&two, WIRE_TYPE_unwatch, lease), -ESTALE);
	ck_assert_int_eq(request(&two, WIRE_TYPE_watch, 0), -ESTALE);
	ck_assert_int_eq(request(&two, WIRE_TYPE_watch, UINT64_MAX), -ESTALE);
	notify(key, 1);
	deliver();
	ck_assert_uint_eq(two.events, 0);
}
END_TEST

START_TEST(notify__needs_the_right_to_write)
{
	uint64_t rkey = attach(&two, "named", WIRE_RIGHT_READ);

	watch(&one, lease);
	ck_assert(!fake_fabric_notify(rkey, 1, 0));
	deliver();
	ck_assert_uint_eq(one.events, 0);
}
END_TEST

/* All watching sessions learn of notifications that the fabric dropped. */
START_TEST(notify__reports_lost_notifications)
{
	attach_and_watch(&two, "named", lease);
	watch(&one, lease);
	two.busy = true;
	notify_times(key, LEASE_CLIENT_NOTICES_MAX);
	ck_assert(fake_fabric_notify(key, 10, 3));
	ck_assert(fake_fabric_notify(key, 11, UINT32_MAX - 7));
	deliver();
	expect(&one, 0, lease, 10, 3);
	expect(&one, 1, lease, 11, UINT32_MAX - 7);
	set_idle(&two);
	expect(&two, 0, lease, 11, UINT32_MAX - 3);
	two.busy = true;
	notify_times(key, LEASE_CLIENT_NOTICES_MAX);
	ck_assert(fake_fabric_notify(key, 12, UINT32_MAX));
	ck_assert(fake_fabric_notify(key, 13, 9));
	deliver();
	set_idle(&two);
	expect(&two, 0, lease, 13, UINT32_MAX);
}
END_TEST

START_TEST(unwatch__drops_waiting_notifications)
{
	uint64_t other_key, other = allocate(&one, "", &other_key);

	watch(&one, lease);
	watch(&one, other);
	notify(key, 1);
	notify(other_key, 2);
	ck_assert_int_eq(request(&one, WIRE_TYPE_unwatch, lease), 0);
	ck_assert_int_eq(request(&one, WIRE_TYPE_unwatch, lease), 0);
	notify(key, 3);
	deliver();
	ck_assert_uint_eq(one.events, 1);
	ck_assert_uint_eq(one.event.notified.n_notices, 1);
	expect(&one, 0, other, 2, 0);
	watch(&one, lease);
	notify(key, 4);
	deliver();
	expect(&one, 0, lease, 4, 0);
}
END_TEST

/* The watching session detaches the lease, or frees it, or another session frees it. */
START_TEST(watch__ends_with_the_attachment)
{
	static const enum wire_type types[] = { WIRE_TYPE_detach, WIRE_TYPE_free,
						WIRE_TYPE_free };
	struct wire_msg *msg;

	(void)attach(&two, "named", RW);
	watch(&two, lease);
	notify(key, 1);
	msg = message(types[_i]);
	msg->free.lease = lease;
	client_send(_i == 2 ? &one : &two, msg);
	/* the key may be dying */
	notify(key, 2);
	fake_fabric_settle();
	deliver();
	if (_i == 2)
		ck_assert_int_eq((int)two.event.type, (int)WIRE_TYPE_revoked);
	ck_assert_uint_eq(two.events, _i == 2);
	ck_assert_int_eq(request(&two, WIRE_TYPE_watch, lease), -ESTALE);
}
END_TEST

/* The notification was sent before the detach. */
START_TEST(notify__works_through_a_dying_key)
{
	uint64_t rkey = attach(&two, "named", RW);
	struct wire_msg *msg;

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
	attach_and_watch(&two, "named", lease);
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

START_TEST(busy__connections_get_the_latest_notifications)
{
	uint64_t other_key, other = allocate(&one, "other", &other_key);

	attach_and_watch(&two, "named", lease);
	attach_and_watch(&two, "other", other);
	watch(&one, lease);
	two.busy = true;
	for (uint32_t i = 0; i < LEASE_CLIENT_NOTICES_MAX + 50; i++) {
		notify(key, i);
		deliver();
		/* other sessions lose nothing */
		expect(&one, 0, lease, i, 0);
	}
	notify(other_key, 3);
	deliver();
	ck_assert_uint_eq(two.events, 0);
	set_idle(&two);
	/* a full event, then the latest notification of each lease */
	ck_assert_uint_eq(two.events, 2);
	expect(&two, 0, lease, LEASE_CLIENT_NOTICES_MAX + 49, 49);
	expect(&two, 1, other, 3, 0);
	notify(key, 99);
	deliver();
	expect(&two, 0, lease, 99, 0);
}
END_TEST

/* A slice tells a watcher of 64, which are one event. */
START_TEST(burst__loses_no_notification)
{
	uint32_t sent = 3 * LEASE_CLIENT_NOTICES_MAX + 5;

	watch(&one, lease);
	notify_times(key, sent);
	deliver();
	ck_assert_uint_eq(one.events, sent / 64 + 1);
	expect(&one, sent % 64 - 1, lease, sent - 1, 0);
}
END_TEST

START_TEST(resume__keeps_watches_and_waiting_notifications)
{
	attach_and_watch(&two, "named", lease);
	client_lose(&two);
	fake_fabric_settle();
	notify_times(key, LEASE_CLIENT_NOTICES_MAX + 10);
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

/* The teardown finds no memory of the notifications that wait for the session. */
START_TEST(fence__drops_waiting_notifications)
{
	attach_and_watch(&two, "named", lease);
	client_lose(&two);
	notify_times(key, 2 * LEASE_CLIENT_NOTICES_MAX);
}
END_TEST

#define MANY 100
#define ROUNDS 5

/* A session has at most one more waiting notification per attachment. */
START_TEST(watches__are_limited_by_attachments)
{
	static uint64_t leases[MANY], keys[MANY];

	open_with_channel(&three);
	for (unsigned i = 0; i < MANY; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "%u", i);
		leases[i] = allocate(&one, name, &keys[i]);
		watch(&one, leases[i]);
		attach_and_watch(&two, name, leases[i]);
		attach_and_watch(&three, name, leases[i]);
	}
	three.busy = true;
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < MANY; i++) {
			notify(keys[i], round);
			deliver();
		}
	set_idle(&three);
	deliver();
	/* the oldest notifications, then the latest of each lease, in the order in which
	 * the leases exceeded the limit */
	ck_assert_uint_eq(three.events,
			  (LEASE_CLIENT_NOTICES_MAX + MANY) / WIRE_NOTICES_MAX + 1);
	expect(&three, three.event.notified.n_notices - 1u,
	       leases[LEASE_CLIENT_NOTICES_MAX % MANY - 1], ROUNDS - 1, 1);
	expect(&one, one.event.notified.n_notices - 1u, leases[MANY - 1], ROUNDS - 1,
	       0);
}
END_TEST

/* ---- many watchers ---- */

/* From here on no turn has time left: a slice tells one watcher, or sends to one. */
static void end_turn(void)
{
	turn_begin(&stage_control.turn, 0);
	stage_control.turn.first_ns = 1;
}

static unsigned waiting(const struct client *client)
{
	const struct session *session = client->connection.session;

	return session ? session->lease_client.notices.n : 0;
}

static unsigned all_waiting(void)
{
	return waiting(&one) + waiting(&two) + waiting(&three);
}

static unsigned all_events(void)
{
	return one.events + two.events + three.events;
}

static void run_slice(void)
{
	unsigned waited = all_waiting(), events = all_events();

	deliver();
	ck_assert_uint_le(all_waiting(), waited + 1);
	ck_assert_uint_le(all_events(), events + 1);
}

static void run_slices(void)
{
	while (slices_wait(&stage_control.slices))
		run_slice();
}

static void end_many(void)
{
	stage_control.turn.running = false;
	pass(0);
	fake_fabric_settle();
	pass(0);
}

static void watch_by_all(void)
{
	open_with_channel(&three);
	watch(&one, lease);
	attach_and_watch(&two, "named", lease);
	attach_and_watch(&three, "named", lease);
	end_turn();
}

START_TEST(watchers__are_told_in_slices)
{
	watch_by_all();
	notify(key, 7);
	ck_assert_uint_eq(all_waiting() + all_events(), 0);
	run_slice();
	ck_assert_uint_eq(all_waiting(), 0);
	run_slice();
	ck_assert_uint_eq(all_waiting(), 1);
	notify(key, 8);
	run_slices();
	ck_assert_uint_eq(all_waiting(), 0);
	for (unsigned i = 0; i < 3; i++) {
		struct client *clients[] = { &one, &two, &three };

		ck_assert_int_eq((int)clients[i]->event.type, (int)WIRE_TYPE_notified);
		expect(clients[i], clients[i]->event.notified.n_notices - 1u, lease, 8,
		       0);
	}
	end_many();
}
END_TEST

/* Notifications that come faster than they are handed out: the last ones are kept. */
START_TEST(overrun__loses_notifications_and_counts_them)
{
	watch_by_all();
	for (uint32_t i = 0; i < FABRIC_NOTIFICATIONS_MAX + 10; i++)
		notify(key, i);
	run_slices();
	for (unsigned i = 0; i < 3; i++) {
		struct client *clients[] = { &one, &two, &three };

		expect(clients[i], clients[i]->event.notified.n_notices - 1u, lease,
		       FABRIC_NOTIFICATIONS_MAX + 9, 9);
	}
	end_many();
}
END_TEST

/* Whom one had been told, when a watcher goes, comes, or is told again. */
START_TEST(watchers__may_come_and_go_meanwhile)
{
	watch_by_all();
	ck_assert_int_eq(request(&three, WIRE_TYPE_unwatch, lease), 0);
	notify(key, 7);
	run_slice();
	run_slice();
	ck_assert_uint_eq(waiting(&one), 1);
	watch(&three, lease);
	ck_assert_int_eq(request(&two, WIRE_TYPE_unwatch, lease), 0);
	run_slices();
	ck_assert_uint_eq(one.events, 1);
	ck_assert_uint_eq(two.events + three.events, 0);
	notify(key, 8);
	run_slices();
	ck_assert_uint_eq(one.events, 2);
	ck_assert_uint_eq(three.events, 1);
	expect(&three, 0, lease, 8, 0);
	end_many();
}
END_TEST

/* The session of a watcher ends, is fenced, or the lease ends. */
START_TEST(end__may_come_before_the_watchers_are_told)
{
	watch_by_all();
	notify(key, 7);
	run_slice();
	run_slice();
	notify(key, 8);
	if (_i == 0)
		client_send(&two, message(WIRE_TYPE_bye));
	else if (_i == 1)
		client_lose(&two);
	else
		client_send(&one, lease_message(WIRE_TYPE_free, lease));
	fake_fabric_settle();
	run_slices();
	end_many();
	if (_i == 2)
		ck_assert_int_eq((int)three.event.type, (int)WIRE_TYPE_revoked);
	else
		expect(&three, three.event.notified.n_notices - 1u, lease, 8, 0);
	ck_assert_uint_eq(all_waiting(), 0);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("watch", setup, control_teardown);

	tcase_add_test(tc, watch__delivers_to_watching_sessions_only);
	tcase_add_test(tc, watch__needs_an_attached_lease);
	tcase_add_test(tc, notify__needs_the_right_to_write);
	tcase_add_test(tc, notify__reports_lost_notifications);
	tcase_add_test(tc, unwatch__drops_waiting_notifications);
	tcase_add_loop_test(tc, watch__ends_with_the_attachment, 0, 3);
	tcase_add_test(tc, notify__works_through_a_dying_key);
	tcase_add_test(tc, watch__ends_with_the_session);
	tcase_add_test(tc, busy__connections_get_the_latest_notifications);
	tcase_add_test(tc, burst__loses_no_notification);
	tcase_add_test(tc, resume__keeps_watches_and_waiting_notifications);
	tcase_add_test(tc, fence__drops_waiting_notifications);
	tcase_add_test(tc, watches__are_limited_by_attachments);
	tcase_add_test(tc, watchers__are_told_in_slices);
	tcase_add_test(tc, overrun__loses_notifications_and_counts_them);
	tcase_add_test(tc, watchers__may_come_and_go_meanwhile);
	tcase_add_loop_test(tc, end__may_come_before_the_watchers_are_told, 0, 3);
	return unit_main();
}
