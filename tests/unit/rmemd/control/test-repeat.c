/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests repeated after their connection was lost: each takes effect once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/rmemd/control-stage.h"
#include "rmemd/control/session_requests.h"
#include "rmemd/control/session_table.h"
#include "rmemd/state/ledger_kinds.h"
#include "rmemd/state/ledger.h"
#include "unit/unit.h"

static struct client one, two, other;
static bool restarts; /* the daemon, before the client is back */

static void setup_restarting(void)
{
	control_setup();
	restarts = true;
}

static struct wire_msg *allocate(uint64_t bytes, const char *name)
{
	struct wire_msg *msg = message(WIRE_TYPE_allocate);

	msg->allocate.bytes = bytes;
	msg->allocate.node = -1;
	(void)strcpy(msg->allocate.name, name);
	return msg;
}

static struct wire_msg *attach(const char *name)
{
	struct wire_msg *msg = message(WIRE_TYPE_attach);

	msg->attach.rights = WIRE_RIGHT_READ | WIRE_RIGHT_WRITE;
	(void)strcpy(msg->attach.name, name);
	return msg;
}

static struct wire_msg *about(enum wire_type type, uint64_t lease)
{
	struct wire_msg *msg = message(type);

	/* the first field of all of these */
	msg->free.lease = lease;
	return msg;
}

static struct wire_msg *renamed(uint64_t lease, const char *name)
{
	struct wire_msg *msg = about(WIRE_TYPE_rename, lease);

	(void)strcpy(msg->rename.name, name);
	return msg;
}

static struct wire_msg *resized(uint64_t lease, uint64_t bytes)
{
	struct wire_msg *msg = about(WIRE_TYPE_resize, lease);

	msg->resize.bytes = bytes;
	return msg;
}

static struct wire_msg *by_name(enum wire_type type, const char *name)
{
	struct wire_msg *msg = message(type);

	(void)strcpy(msg->remove.name, name);
	return msg;
}

/* Ask under an old id, let everything come to rest, and expect one answer of this type. */
static const struct wire_msg *repeat(struct client *client, struct wire_msg *msg,
				     uint64_t id, enum wire_type expected)
{
	unsigned before = client->answers;

	client_send_as(client, msg, id);
	fake_fabric_settle();
	ck_assert_uint_eq(client->answers, before + 1);
	ck_assert_uint_eq(client->answer.id, id);
	ck_assert_int_eq((int)client->answer.type, (int)expected);
	return &client->answer;
}

static void lose_and_resume(void)
{
	client_lose(&one);
	fake_fabric_settle();
	if (restarts)
		control_restart();
	client_resume(&two, &one);
	if (restarts)
		(void)client_channel(&two, 0);
}

/* ---- after a restart of the daemon ---- */

START_TEST(restart__is_survived_by_sessions)
{
	struct wire_msg *msg;

	client_open(&one);
	(void)client_channel(&one, 0);
	(void)client_allocate(&one, 100, "");
	lose_and_resume();
	ck_assert_uint_eq(two.session, one.session);
	/* channels of the last process are gone, and its numbers are not used again */
	msg = message(WIRE_TYPE_close_channel);
	msg->close_channel.channel = 1;
	(void)client_ask(&two, msg, WIRE_TYPE_ok);
	ck_assert_uint_gt(client_channel(&two, 0), 1000);
	/* a token is still needed */
	client_lose(&two);
	control_restart();
	client_init(&other);
	msg = hello();
	msg->hello.resume = one.session;
	memcpy(msg->hello.token, one.token, WIRE_TOKEN_BYTES);
	msg->hello.token[3] ^= 1;
	client_fail(&other, msg, -ESTALE);
	client_lose(&other);
	/* a session that does not come back loses its leases after its grace time */
	pass(STAGE_GRACE_MS - 1);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	pass(1);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_uint_eq(ledger_count(stage_control.ledger), 0);
}
END_TEST

/* It is asked for again before there is any channel, and nobody else knows any more through
 * which endpoints the session reaches memory. */
START_TEST(restart__places_what_was_asked_for_before)
{
	struct wire_msg *msg;
	uint64_t lease, id;

	client_open(&one);
	msg = allocate(100, "");
	msg->allocate.reach = 2;
	lease = client_ask(&one, msg, WIRE_TYPE_lease)->lease.lease;
	ck_assert_uint_eq(fake_pools_wish()->endpoints, 2);
	id = one.next_id++;
	client_lose(&one);
	fake_fabric_settle();
	control_restart();
	client_resume(&two, &one);
	msg = resized(lease, 2 * FAKE_PAGE);
	msg->resize.reach = 2;
	(void)repeat(&two, msg, id, WIRE_TYPE_lease);
	ck_assert_uint_eq(fake_pools_wish()->endpoints, 2);
	client_lose(&two);
}
END_TEST

/* The keys of another session were still dying, so nobody had been answered. */
START_TEST(restart__remembers_what_has_ended)
{
	uint64_t id;

	client_open(&one);
	(void)client_allocate(&one, 100, "named");
	client_open(&other);
	(void)client_channel(&other, 0);
	(void)client_ask(&other, attach("named"), WIRE_TYPE_lease);
	id = one.next_id;
	client_send(&one, by_name(WIRE_TYPE_remove, "named"));
	ck_assert_uint_eq(one.answers, 2);
	client_lose(&one);
	client_lose(&other);
	control_restart();
	client_resume(&two, &one);
	(void)repeat(&two, by_name(WIRE_TYPE_remove, "named"), id, WIRE_TYPE_ok);
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

START_TEST(restart__leaves_nothing_of_sessions_that_ended)
{
	client_open(&one);
	(void)client_allocate(&one, 100, "");
	client_fail(&one, about(WIRE_TYPE_free, 99), -ESTALE);
	(void)client_ask(&one, message(WIRE_TYPE_bye), WIRE_TYPE_ok);
	client_lose(&one);
	ck_assert_uint_eq(ledger_count(stage_control.ledger), 0);
	control_restart();
	ck_assert_uint_eq(sessions_count(stage_control.sessions), 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	/* ids go on */
	client_open(&two);
}
END_TEST

/* Neither sessions nor their answers can be anything. */
START_TEST(restart__refuses_what_is_no_session)
{
	const struct ledger_key key = { _i ? LEDGER_ANSWER : LEDGER_SESSION, 5, 6 };

	ck_assert_int_eq(ledger_put(stage_control.ledger, &key, "x", 1), 0);
	ledger_commit(stage_control.ledger);
	ck_assert_int_eq(sessions_restore(stage_control.sessions, NULL), -EBADMSG);
	ck_assert_uint_eq(sessions_count(stage_control.sessions), 0);
	ledger_remove(stage_control.ledger, &key);
}
END_TEST

static const char *const names[] = { "", "named" };

START_TEST(allocate__whose_answer_is_lost)
{
	uint64_t lease, id;

	client_open(&one);
	(void)client_channel(&one, 0);
	lease = client_allocate(&one, 100, names[_i]);
	id = one.answer.id;
	lose_and_resume();
	for (unsigned i = 0; i < 3; i++) {
		const struct wire_lease *answer =
			&repeat(&two, allocate(100, names[_i]), id, WIRE_TYPE_lease)
				 ->lease;

		ck_assert_uint_eq(answer->lease, lease);
		ck_assert_str_eq(answer->name, names[_i]);
		/* the keys are those of now */
		ck_assert_uint_eq(answer->n_keys, 1);
		ck_assert(fake_fabric_key_works(answer->keys[0].rkey, 100));
	}
	ck_assert_uint_eq(fake_pools_lent(), 1);
	(void)client_ask(&two, about(WIRE_TYPE_free, lease), WIRE_TYPE_ok);
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

START_TEST(allocate__undone_by_the_loss)
{
	uint64_t id;

	client_open(&one);
	(void)client_channel(&one, 0);
	id = one.next_id;
	client_send(&one, allocate(100, names[_i]));
	ck_assert_uint_eq(fake_pools_lent(), 1);
	lose_and_resume();
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_uint_eq(two.connection.session->n_requests, 0);
	fake_pools_scrub();
	(void)repeat(&two, allocate(100, names[_i]), id, WIRE_TYPE_lease);
	ck_assert_uint_eq(two.answer.lease.n_keys, 1);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	(void)client_ask(&two, about(WIRE_TYPE_free, two.answer.lease.lease),
			 WIRE_TYPE_ok);
}
END_TEST

START_TEST(allocate__never_asked_for_again)
{
	client_open(&one);
	(void)client_channel(&one, 0);
	(void)client_allocate(&one, 100, "");
	client_send(&one, allocate(100, ""));
	client_lose(&one);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_pools_lent(), 1);
	pass(STAGE_GRACE_MS);
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

START_TEST(lease__that_ended_meanwhile)
{
	uint64_t id;

	client_open(&one);
	client_open(&other);
	(void)client_allocate(&one, 100, "named");
	id = one.answer.id;
	client_lose(&one);
	(void)client_ask(&other, by_name(WIRE_TYPE_remove, "named"), WIRE_TYPE_ok);
	client_resume(&two, &one);
	(void)repeat(&two, allocate(100, "named"), id, WIRE_TYPE_error);
	ck_assert_int_eq((int)two.answer.error.code, ESTALE);
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

START_TEST(attach__whose_answer_is_lost)
{
	uint64_t lease, id;

	client_open(&other);
	lease = client_allocate(&other, 100, "named");
	client_open(&one);
	(void)client_channel(&one, 1);
	(void)client_ask(&one, attach("named"), WIRE_TYPE_lease);
	id = one.answer.id;
	lose_and_resume();
	for (unsigned i = 0; i < 2; i++) {
		(void)repeat(&two, attach("named"), id, WIRE_TYPE_lease);
		ck_assert_uint_eq(two.answer.lease.lease, lease);
		ck_assert(fake_fabric_key_works(two.answer.lease.keys[0].rkey, 100));
	}
	(void)client_ask(&other, about(WIRE_TYPE_free, lease), WIRE_TYPE_ok);
}
END_TEST

/* What the others do between the request and its repetition stays. */
START_TEST(changes__are_not_done_twice)
{
	uint64_t first, second;
	uint64_t id;

	client_open(&one);
	client_open(&other);
	first = client_allocate(&one, FAKE_PAGE, "a");
	second = client_allocate(&one, FAKE_PAGE, "b");
	(void)client_ask(&other, attach("a"), WIRE_TYPE_lease);
	id = one.next_id;
	(void)client_ask(&one, resized(first, 2 * FAKE_PAGE), WIRE_TYPE_lease);
	(void)client_ask(&one, renamed(first, "c"), WIRE_TYPE_ok);
	(void)client_ask(&one, by_name(WIRE_TYPE_remove, "b"), WIRE_TYPE_ok);
	(void)client_ask(&one, about(WIRE_TYPE_renew, first), WIRE_TYPE_ok);
	(void)client_ask(&one, about(WIRE_TYPE_detach, first), WIRE_TYPE_ok);
	(void)client_ask(&one, attach("c"), WIRE_TYPE_lease);
	client_lose(&one);
	(void)client_ask(&other, resized(first, 3 * FAKE_PAGE), WIRE_TYPE_lease);
	(void)client_ask(&other, renamed(first, "d"), WIRE_TYPE_ok);
	(void)client_allocate(&other, FAKE_PAGE, "b");
	client_resume(&two, &one);
	(void)repeat(&two, resized(first, 2 * FAKE_PAGE), id++, WIRE_TYPE_lease);
	/* described as it is now */
	ck_assert_uint_eq(two.answer.lease.bytes, 3 * FAKE_PAGE);
	(void)repeat(&two, renamed(first, "c"), id++, WIRE_TYPE_ok);
	(void)repeat(&two, by_name(WIRE_TYPE_remove, "b"), id++, WIRE_TYPE_ok);
	(void)repeat(&two, about(WIRE_TYPE_renew, first), id++, WIRE_TYPE_ok);
	(void)repeat(&two, about(WIRE_TYPE_detach, first), id++, WIRE_TYPE_ok);
	(void)repeat(&two, attach("c"), id++, WIRE_TYPE_lease);
	ck_assert_str_eq(two.answer.lease.name, "d");
	(void)client_ask(&two, by_name(WIRE_TYPE_stat, "b"), WIRE_TYPE_entries);
	ck_assert_uint_gt(two.answer.entries.entries[0].lease, second);
	(void)client_ask(&two, about(WIRE_TYPE_free, first), WIRE_TYPE_ok);
	(void)client_ask(&two, by_name(WIRE_TYPE_remove, "b"), WIRE_TYPE_ok);
}
END_TEST

START_TEST(failure__is_told_again)
{
	static char text[WIRE_NAME_MAX + 1];
	uint64_t lease, id;

	client_open(&one);
	lease = client_allocate(&one, 100, "named");
	client_fail(&one, allocate(100, "named"), -EEXIST);
	id = one.answer.id;
	memcpy(text, one.answer.error.text, sizeof(text));
	(void)client_ask(&one, about(WIRE_TYPE_free, lease), WIRE_TYPE_ok);
	lose_and_resume();
	(void)repeat(&two, allocate(100, "named"), id, WIRE_TYPE_error);
	ck_assert_int_eq((int)two.answer.error.code, EEXIST);
	ck_assert_str_eq(two.answer.error.text, text);
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

/* The keys of another session are still dying. */
START_TEST(free__under_way)
{
	struct wire_msg *msg;
	uint64_t lease, id;

	client_open(&one);
	lease = client_allocate(&one, 100, "named");
	client_open(&other);
	(void)client_channel(&other, 0);
	(void)client_ask(&other, attach("named"), WIRE_TYPE_lease);
	id = one.next_id;
	client_send(&one, about(WIRE_TYPE_free, lease));
	client_lose(&one);
	ck_assert_uint_eq(one.answers, 2);
	msg = hello();
	msg->hello.resume = one.session;
	memcpy(msg->hello.token, one.token, WIRE_TOKEN_BYTES);
	client_init(&two);
	two.next_id = one.next_id;
	client_send(&two, msg);
	ck_assert_uint_eq(two.answers, 1);
	ck_assert_uint_eq(two.connection.session->n_requests, 1);
	/* to whom has not asked nothing is answered */
	for (int i = 0; i < _i; i++)
		client_send_as(&two, about(WIRE_TYPE_free, lease), id);
	ck_assert_uint_eq(two.answers, 1);
	fake_fabric_settle();
	ck_assert_uint_eq(two.answers, _i ? 2 : 1);
	ck_assert_uint_eq(two.connection.session->n_requests, 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	(void)repeat(&two, about(WIRE_TYPE_free, lease), id, WIRE_TYPE_ok);
}
END_TEST

START_TEST(free__under_way_as_the_session_ends)
{
	uint64_t lease;

	client_open(&one);
	lease = client_allocate(&one, 100, "named");
	client_open(&other);
	(void)client_channel(&other, 0);
	(void)client_ask(&other, attach("named"), WIRE_TYPE_lease);
	client_send(&one, about(WIRE_TYPE_free, lease));
	if (_i)
		client_send(&one, message(WIRE_TYPE_bye));
	client_lose(&one);
	stage_now_ms += STAGE_GRACE_MS;
	(void)client_ask(&other, message(WIRE_TYPE_ping), WIRE_TYPE_ok);
	pass(0);
	ck_assert_uint_eq(sessions_count(stage_control.sessions), 1);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

/* Everything at once, lost after `_i` pieces of news, then repeated in order. */
START_TEST(loss__at_any_time)
{
	uint64_t shrinks, grows, goes, id;

	client_open(&other);
	(void)client_channel(&other, 0);
	client_open(&one);
	(void)client_channel(&one, 0);
	(void)client_channel(&one, 1);
	shrinks = client_allocate(&one, 2 * FAKE_PAGE, "shrinks");
	grows = client_allocate(&one, FAKE_PAGE, "");
	goes = client_allocate(&one, FAKE_PAGE, "goes");
	(void)client_ask(&other, attach("shrinks"), WIRE_TYPE_lease);
	(void)client_ask(&other, attach("goes"), WIRE_TYPE_lease);
	(void)client_allocate(&other, FAKE_PAGE, "theirs");
	id = one.next_id;
	for (unsigned round = 0; round < 2; round++) {
		struct client *client = round ? &two : &one;

		client_send_as(client, resized(shrinks, FAKE_PAGE), id);
		client_send_as(client, resized(grows, 2 * FAKE_PAGE), id + 1);
		client_send_as(client, allocate(FAKE_PAGE, ""), id + 2);
		client_send_as(client, attach("theirs"), id + 3);
		client_send_as(client, about(WIRE_TYPE_free, goes), id + 4);
		if (round)
			break;
		one.next_id = id + 5;
		for (int i = 0; i < _i; i++)
			(void)fake_fabric_step((unsigned)(_i * 7 + i));
		lose_and_resume();
		fake_pools_scrub();
	}
	fake_fabric_settle();
	ck_assert_uint_eq(two.answers, 6);
	ck_assert_uint_eq(stage_control.counters.requests_failed, 0);
	ck_assert_uint_eq(two.connection.session->n_requests, 0);
	ck_assert_uint_eq(two.connection.session->holder.n_attachments, 4);
	/* shrinks 1, grows 2, the new one 1, theirs 1 */
	ck_assert_uint_eq(fake_pools_lent(), 5);
	(void)client_ask(&two, about(WIRE_TYPE_free, shrinks), WIRE_TYPE_ok);
	(void)client_ask(&two, by_name(WIRE_TYPE_remove, "theirs"), WIRE_TYPE_ok);
}
END_TEST

START_TEST(answers__are_kept_for_the_latest)
{
	uint64_t lease, id;

	client_open(&one);
	lease = client_allocate(&one, 100, "");
	id = one.answer.id;
	/* most sessions need no more */
	ck_assert_uint_le(one.connection.session->replies.room, 8);
	for (unsigned i = 0; i < REPLY_CACHE_MAX; i++)
		client_fail(&one, about(WIRE_TYPE_free, lease + 1 + i), -ESTALE);
	lose_and_resume();
	for (unsigned i = 0; i < 2; i++) {
		(void)repeat(&two, allocate(100, ""), id, WIRE_TYPE_error);
		ck_assert_int_eq((int)two.answer.error.code, EPROTO);
	}
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert_uint_eq(two.closed, 0);
	(void)repeat(&two, about(WIRE_TYPE_free, lease + 1), id + 1, WIRE_TYPE_error);
	ck_assert_int_eq((int)two.answer.error.code, ESTALE);
	/* what leaves nothing behind is done at any time */
	(void)repeat(&two, message(WIRE_TYPE_ping), id, WIRE_TYPE_ok);
	(void)repeat(&two, about(WIRE_TYPE_attach, lease), 1, WIRE_TYPE_lease);
}
END_TEST

START_TEST(ids__that_were_lost_are_new)
{
	client_open(&one);
	one.next_id = 50;
	(void)client_allocate(&one, 100, "");
	(void)repeat(&one, allocate(100, ""), 20, WIRE_TYPE_lease);
	ck_assert_uint_eq(fake_pools_lent(), 2);
	(void)repeat(&one, allocate(100, ""), 20, WIRE_TYPE_lease);
	ck_assert_uint_eq(fake_pools_lent(), 2);
	/* the highest there is may be used, too */
	(void)repeat(&one, allocate(100, ""), UINT64_MAX, WIRE_TYPE_lease);
	(void)repeat(&one, allocate(100, ""), UINT64_MAX, WIRE_TYPE_lease);
	ck_assert_uint_eq(fake_pools_lent(), 3);
	(void)client_ask(&one, message(WIRE_TYPE_ping), WIRE_TYPE_ok);
	ck_assert_uint_eq(one.closed, 0);
}
END_TEST

START_TEST(id__of_another_request)
{
	uint64_t lease, id;

	client_open(&one);
	(void)client_channel(&one, 0);
	lease = client_allocate(&one, 100, "");
	id = one.answer.id;
	if (_i >= 2) {
		/* it is still under way */
		id = one.next_id;
		client_send(&one, allocate(100, ""));
	}
	client_send_as(&one,
		       _i % 2 ? message(WIRE_TYPE_ping) : about(WIRE_TYPE_free, lease),
		       id);
	ck_assert_int_eq((int)one.answer.type, (int)WIRE_TYPE_error);
	ck_assert_int_eq((int)one.answer.error.code, EPROTO);
	ck_assert_uint_eq(one.closed, 1);
	client_lose(&one);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_pools_lent(), 1);
}
END_TEST

START_TEST(id__that_is_zero)
{
	client_init(&one);
	if (_i)
		client_open(&one);
	client_send_as(&one, _i ? message(WIRE_TYPE_ping) : hello(), 0);
	ck_assert_uint_eq(one.answers, _i ? 1 : 0);
	ck_assert_int_eq((int)one.event.type, (int)WIRE_TYPE_error);
	ck_assert_int_eq((int)one.event.error.code, EPROTO);
	ck_assert_uint_eq(one.closed, 1);
	client_lose(&one);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("repeat");
	TCase *tc = tcase_create("repeat"), *restart = tcase_create("restart");

	tcase_add_checked_fixture(tc, control_setup, control_teardown);
	tcase_add_loop_test(tc, allocate__whose_answer_is_lost, 0, 2);
	tcase_add_loop_test(tc, allocate__undone_by_the_loss, 0, 2);
	tcase_add_test(tc, allocate__never_asked_for_again);
	tcase_add_test(tc, lease__that_ended_meanwhile);
	tcase_add_test(tc, attach__whose_answer_is_lost);
	tcase_add_test(tc, changes__are_not_done_twice);
	tcase_add_test(tc, failure__is_told_again);
	tcase_add_loop_test(tc, free__under_way, 0, 3);
	tcase_add_loop_test(tc, free__under_way_as_the_session_ends, 0, 2);
	tcase_add_loop_test(tc, loss__at_any_time, 0, 20);
	tcase_add_test(tc, answers__are_kept_for_the_latest);
	tcase_add_test(tc, ids__that_were_lost_are_new);
	tcase_add_loop_test(tc, id__of_another_request, 0, 4);
	tcase_add_loop_test(tc, id__that_is_zero, 0, 2);
	suite_add_tcase(suite, tc);
	tcase_add_checked_fixture(restart, setup_restarting, control_teardown);
	tcase_add_loop_test(restart, allocate__whose_answer_is_lost, 0, 2);
	tcase_add_loop_test(restart, allocate__undone_by_the_loss, 0, 2);
	tcase_add_test(restart, failure__is_told_again);
	tcase_add_test(restart, answers__are_kept_for_the_latest);
	tcase_add_test(restart, restart__is_survived_by_sessions);
	tcase_add_test(restart, restart__places_what_was_asked_for_before);
	tcase_add_test(restart, restart__remembers_what_has_ended);
	tcase_add_test(restart, restart__leaves_nothing_of_sessions_that_ended);
	tcase_add_loop_test(restart, restart__refuses_what_is_no_session, 0, 2);
	suite_add_tcase(suite, restart);
	return unit_main(suite);
}
