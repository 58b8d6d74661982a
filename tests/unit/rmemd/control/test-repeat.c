/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that are repeated after their connection was lost take effect once. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "unit/rmemd/control-stage.h"
#include "rmemd/control/request.h"
#include "rmemd/control/session.h"
#include "rmemd/state/ledger_value.h"
#include "rmemd/state/ledger.h"
#include "rmemd/state/ledger_file.h"
#include "unit/unit.h"

#define NOT_KNOWN "it failed; the text of the error is no longer known"
/* What the replies of a session may take, as rmemd.conf(5) and rmem-deployment(7) say. */
#define LEDGER_BYTES (20 << 10)
#define MEMORY_BYTES (48 << 10)

static struct client one, two, other;
static bool restarts; /* the daemon restarts before the client resumes */

static void setup_restart(void)
{
	control_setup();
	restarts = true;
}

static void repeat_fail(struct wire_msg *msg, uint64_t id, uint32_t code)
{
	const struct wire_msg *answer = client_ask_as(&two, msg, id, WIRE_TYPE_error);

	ck_assert_uint_eq(answer->error.code, code);
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

static uint32_t channel_new(void)
{
	uint32_t channel = client_channel(&two, 0);
	struct wire_msg *msg = message(WIRE_TYPE_close_channel);

	msg->close_channel.channel = channel;
	client_ok(&two, msg);
	return channel;
}

/* A stale connection or request to close names a channel of an earlier process. */
START_TEST(restart__never_repeats_channel_numbers)
{
	uint32_t last = 0, channel;

	client_open(&one);
	client_lose(&one);
	client_resume(&two, &one);
	for (unsigned i = 0; i < 5000; i++) {
		/* once more channels than are reserved at a time */
		for (unsigned k = 0; k < (i == 3000 ? 3000 : 1); k++) {
			channel = channel_new();
			ck_assert_uint_gt(channel, last);
			last = channel;
		}
		client_lose(&two);
		fake_fabric_settle();
		control_restart();
		one = two;
		client_resume(&two, &one);
	}
}
END_TEST

START_TEST(restart__restores_sessions)
{
	struct wire_msg *msg;

	client_open_connected(&one);
	(void)client_allocate(&one, 100, "");
	lose_and_resume();
	ck_assert_uint_eq(two.session, one.session);
	/* the channels of the last process are closed, and their numbers are not used again */
	msg = message(WIRE_TYPE_close_channel);
	msg->close_channel.channel = 1;
	client_ok(&two, msg);
	ck_assert_uint_gt(client_channel(&two, 0), 1000);
	/* a token is still needed */
	client_lose(&two);
	control_restart();
	client_init(&other);
	msg = hello_resume(&one);
	msg->hello.token[3] ^= 1;
	client_fail(&other, msg, -ESTALE);
	client_lose(&other);
	/* the leases of a session that is not resumed end after its grace time */
	pass(STAGE_GRACE_MS - 1);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	pass(1);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_uint_eq(ledger_count(stage_control.ledger), 0);
}
END_TEST

/* The request is repeated before the session has a channel: only the request tells the endpoints
 * through which the client reaches memory. */
START_TEST(restart__keeps_the_placement_of_a_repeated_request)
{
	struct wire_msg *msg;
	uint64_t lease, id;

	client_open(&one);
	msg = to_allocate(100, "");
	msg->allocate.reach = 2;
	lease = client_ask(&one, msg, WIRE_TYPE_lease)->lease.lease;
	ck_assert_uint_eq(fake_pools_wish()->endpoints, 2);
	id = one.next_id++;
	client_lose(&one);
	fake_fabric_settle();
	control_restart();
	client_resume(&two, &one);
	msg = to_resize(lease, 2 * FAKE_PAGE);
	msg->resize.reach = 2;
	(void)client_ask_as(&two, msg, id, WIRE_TYPE_lease);
	ck_assert_uint_eq(fake_pools_wish()->endpoints, 2);
	client_lose(&two);
}
END_TEST

/* The request was not answered before the restart, as keys of another session were not dead. */
START_TEST(restart__remembers_an_ended_lease)
{
	uint64_t id;

	client_open(&one);
	(void)client_allocate(&one, 100, "named");
	client_open_connected(&other);
	(void)client_ask(&other, to_attach("named"), WIRE_TYPE_lease);
	id = one.next_id;
	client_send(&one, by_name(WIRE_TYPE_remove, "named"));
	ck_assert_uint_eq(one.answers, 2);
	client_lose(&one);
	client_lose(&other);
	control_restart();
	client_resume(&two, &one);
	(void)client_ask_as(&two, by_name(WIRE_TYPE_remove, "named"), id, WIRE_TYPE_ok);
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

START_TEST(restart__restores_nothing_of_ended_sessions)
{
	client_open(&one);
	(void)client_allocate(&one, 100, "");
	client_fail(&one, lease_message(WIRE_TYPE_free, 99), -ESTALE);
	client_ok(&one, message(WIRE_TYPE_bye));
	client_lose(&one);
	ck_assert_uint_eq(ledger_count(stage_control.ledger), 0);
	control_restart();
	ck_assert_uint_eq(sessions_count(stage_control.sessions), 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	/* the ids of sessions continue */
	client_open(&two);
}
END_TEST

/* Whoever wrote it. */
START_TEST(restart__hides_names_with_control_characters)
{
	const struct ledger_key key = { LEDGER_SESSION, 5, 0 };
	const struct leases_restore with = { .tenant = control_find_tenant };
	/* a head of zeros, and tenant, client, address */
	char value[32] = { 16, [16] = 'd', [18] = '\n', [20] = 'a' };

	ck_assert_int_eq(ledger_put(stage_control.ledger, &key, value, 22), 0);
	ledger_commit(stage_control.ledger);
	ck_assert_int_eq(sessions_restore(stage_control.sessions, &with), 0);
	ck_assert_str_eq(sessions_find(stage_control.sessions, 5)->client, "?");
}
END_TEST

/* Ages are shown, and listed by. */
START_TEST(restart__knows_no_session_of_the_future)
{
	const struct ledger_key key = { LEDGER_SESSION, 5, 0 };
	const struct leases_restore with = { .tenant = control_find_tenant };
	char value[32] = { 16, [16] = 'd', [18] = 'c', [20] = 'a' };

	memset(value + 8, 0xff, 8); /* when it was opened */
	ck_assert_int_eq(ledger_put(stage_control.ledger, &key, value, 22), 0);
	ledger_commit(stage_control.ledger);
	ck_assert_int_eq(sessions_restore(stage_control.sessions, &with), 0);
	ck_assert_uint_le(sessions_find(stage_control.sessions, 5)->opened_ms,
			  clock_now_ms());
}
END_TEST

/* A session whose record is malformed ends, and no other. */
START_TEST(restart__ends_a_malformed_session_alone)
{
	const struct ledger_key good = { LEDGER_SESSION, 5, 0 };
	const struct ledger_key bad = { LEDGER_SESSION, 6, 0 };
	const struct leases_restore with = { .tenant = control_find_tenant };
	const char value[32] = { 16, [16] = 'd', [18] = 'c', [20] = 'a' };

	ck_assert_int_eq(ledger_put(stage_control.ledger, &good, value, 22), 0);
	ck_assert_int_eq(ledger_put(stage_control.ledger, &bad, "x", 1), 0);
	ledger_commit(stage_control.ledger);
	ck_assert_int_eq(sessions_restore(stage_control.sessions, &with), 0);
	ck_assert_uint_eq(sessions_count(stage_control.sessions), 1);
	ck_assert_ptr_nonnull(sessions_find(stage_control.sessions, 5));
	ck_assert_uint_eq(ledger_count(stage_control.ledger), 1);
}
END_TEST

/* Nor is a request done twice whose answer cannot be read. */
START_TEST(restart__does_not_know_of_a_malformed_answer)
{
	const struct ledger_key key = { LEDGER_SESSION, 5, 0 };
	const struct ledger_key answer = { LEDGER_REPLY, 5, 6 };
	const struct leases_restore with = { .tenant = control_find_tenant };
	const char value[32] = { 16, [16] = 'd', [18] = 'c', [20] = 'a' };
	const struct session *session;

	ck_assert_int_eq(ledger_put(stage_control.ledger, &key, value, 22), 0);
	ck_assert_int_eq(ledger_put(stage_control.ledger, &answer, "x", 1), 0);
	ledger_commit(stage_control.ledger);
	ck_assert_int_eq(sessions_restore(stage_control.sessions, &with), 0);
	session = sessions_find(stage_control.sessions, 5);
	ck_assert_ptr_nonnull(session);
	ck_assert_uint_eq(session->last_id, 6);
	ck_assert_uint_eq(session->replies.dropped_id, 6);
	ck_assert_uint_eq(ledger_count(stage_control.ledger), 1);
}
END_TEST

static const char *const names[] = { "", "named" };

START_TEST(allocate__is_answered_again)
{
	uint64_t lease, id;

	client_open_connected(&one);
	lease = client_allocate(&one, 100, names[_i]);
	id = one.answer.id;
	lose_and_resume();
	for (unsigned i = 0; i < 3; i++) {
		const struct wire_lease *answer =
			&client_ask_as(&two, to_allocate(100, names[_i]), id,
				       WIRE_TYPE_lease)
				 ->lease;

		ck_assert_uint_eq(answer->lease, lease);
		ck_assert_str_eq(answer->name, names[_i]);
		/* the reply has the keys that work now */
		ck_assert_uint_eq(answer->n_keys, 1);
		ck_assert(fake_fabric_key_works(answer->keys[0].rkey, 100));
	}
	ck_assert_uint_eq(fake_pools_lent(), 1);
	client_ok(&two, lease_message(WIRE_TYPE_free, lease));
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

/* An error says that the client does not have the lease. */
START_TEST(allocate__without_new_keys_ends_the_lease)
{
	uint64_t id;

	client_open_connected(&one);
	(void)client_allocate(&one, 100, "");
	id = one.answer.id;
	lose_and_resume();
	fake_fabric_fail_event(0, -EIO);
	repeat_fail(to_allocate(100, ""), id, WIRE_CODE_failed);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	repeat_fail(to_allocate(100, ""), id, WIRE_CODE_stale);
}
END_TEST

START_TEST(waiting_allocate__is_undone_by_the_loss)
{
	uint64_t id;

	client_open_connected(&one);
	id = one.next_id;
	client_send(&one, to_allocate(100, names[_i]));
	ck_assert_uint_eq(fake_pools_lent(), 1);
	lose_and_resume();
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_uint_eq(two.connection.session->n_requests, 0);
	fake_pools_scrub();
	(void)client_ask_as(&two, to_allocate(100, names[_i]), id, WIRE_TYPE_lease);
	ck_assert_uint_eq(two.answer.lease.n_keys, 1);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	client_ok(&two, lease_message(WIRE_TYPE_free, two.answer.lease.lease));
}
END_TEST

START_TEST(allocate__not_repeated_ends_with_the_session)
{
	client_open_connected(&one);
	(void)client_allocate(&one, 100, "");
	client_send(&one, to_allocate(100, ""));
	client_lose(&one);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_pools_lent(), 1);
	pass(STAGE_GRACE_MS);
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

START_TEST(allocate__of_an_ended_lease_fails_with_estale)
{
	uint64_t id;

	client_open(&one);
	client_open(&other);
	(void)client_allocate(&one, 100, "named");
	id = one.answer.id;
	client_lose(&one);
	client_ok(&other, by_name(WIRE_TYPE_remove, "named"));
	client_resume(&two, &one);
	repeat_fail(to_allocate(100, "named"), id, WIRE_CODE_stale);
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

/* Client `one` attaches "named", of `other`, and comes back as `two`; returns the request's id. */
static uint64_t attach_and_lose(uint64_t *ret_lease)
{
	uint64_t id;

	client_open(&other);
	*ret_lease = client_allocate(&other, 100, "named");
	client_open(&one);
	(void)client_channel(&one, 1);
	(void)client_ask(&one, to_attach("named"), WIRE_TYPE_lease);
	id = one.answer.id;
	lose_and_resume();
	return id;
}

START_TEST(attach__is_answered_again)
{
	uint64_t lease, id = attach_and_lose(&lease);

	for (unsigned i = 0; i < 2; i++) {
		(void)client_ask_as(&two, to_attach("named"), id, WIRE_TYPE_lease);
		ck_assert_uint_eq(two.answer.lease.lease, lease);
		ck_assert(fake_fabric_key_works(two.answer.lease.keys[0].rkey, 100));
	}
	client_ok(&other, lease_message(WIRE_TYPE_free, lease));
}
END_TEST

/* An error says that the client does not have it. */
START_TEST(attach__without_new_keys_ends_the_attachment)
{
	uint64_t lease, id = attach_and_lose(&lease);

	fake_fabric_fail_event(0, -EIO);
	repeat_fail(to_attach("named"), id, WIRE_CODE_failed);
	repeat_fail(to_attach("named"), id, WIRE_CODE_stale);
	(void)client_ask(&two, to_attach("named"), WIRE_TYPE_lease);
	ck_assert_uint_eq(two.answer.lease.lease, lease);
	client_ok(&other, lease_message(WIRE_TYPE_free, lease));
}
END_TEST

/* Another session may have stored something there. */
START_TEST(allocate__without_new_keys_leaves_a_lease_that_is_used)
{
	uint64_t lease, id;

	client_open_connected(&one);
	lease = client_allocate(&one, 100, "named");
	id = one.answer.id;
	client_open(&other);
	(void)client_ask(&other, to_attach("named"), WIRE_TYPE_lease);
	client_ok(&other, lease_message(WIRE_TYPE_detach, lease));
	lose_and_resume();
	fake_fabric_fail_event(0, -EIO);
	repeat_fail(to_allocate(100, "named"), id, WIRE_CODE_failed);
	(void)client_ask(&two, to_attach("named"), WIRE_TYPE_lease);
	ck_assert_uint_eq(two.answer.lease.lease, lease);
	client_ok(&two, lease_message(WIRE_TYPE_free, lease));
}
END_TEST

/* Changes that another session makes before the request is repeated stay. */
START_TEST(changes__are_not_made_twice)
{
	uint64_t first, second, id;

	client_open(&one);
	client_open(&other);
	first = client_allocate(&one, FAKE_PAGE, "a");
	second = client_allocate(&one, FAKE_PAGE, "b");
	(void)client_ask(&other, to_attach("a"), WIRE_TYPE_lease);
	id = one.next_id;
	(void)client_ask(&one, to_resize(first, 2 * FAKE_PAGE), WIRE_TYPE_lease);
	client_ok(&one, to_rename(first, "c"));
	client_ok(&one, by_name(WIRE_TYPE_remove, "b"));
	client_ok(&one, lease_message(WIRE_TYPE_renew, first));
	client_ok(&one, lease_message(WIRE_TYPE_detach, first));
	(void)client_ask(&one, to_attach("c"), WIRE_TYPE_lease);
	client_lose(&one);
	(void)client_ask(&other, to_resize(first, 3 * FAKE_PAGE), WIRE_TYPE_lease);
	client_ok(&other, to_rename(first, "d"));
	(void)client_allocate(&other, FAKE_PAGE, "b");
	client_resume(&two, &one);
	(void)client_ask_as(&two, to_resize(first, 2 * FAKE_PAGE), id++,
			    WIRE_TYPE_lease);
	/* the reply describes the lease as it is now */
	ck_assert_uint_eq(two.answer.lease.bytes, 3 * FAKE_PAGE);
	(void)client_ask_as(&two, to_rename(first, "c"), id++, WIRE_TYPE_ok);
	(void)client_ask_as(&two, by_name(WIRE_TYPE_remove, "b"), id++, WIRE_TYPE_ok);
	(void)client_ask_as(&two, lease_message(WIRE_TYPE_renew, first), id++,
			    WIRE_TYPE_ok);
	(void)client_ask_as(&two, lease_message(WIRE_TYPE_detach, first), id++,
			    WIRE_TYPE_ok);
	(void)client_ask_as(&two, to_attach("c"), id++, WIRE_TYPE_lease);
	ck_assert_str_eq(two.answer.lease.name, "d");
	(void)client_ask(&two, by_name(WIRE_TYPE_stat, "b"), WIRE_TYPE_entries);
	ck_assert_uint_gt(two.answer.entries.entries[0].lease, second);
	client_ok(&two, lease_message(WIRE_TYPE_free, first));
	client_ok(&two, by_name(WIRE_TYPE_remove, "b"));
}
END_TEST

START_TEST(failure__is_answered_again)
{
	static char text[WIRE_NAME_MAX + 1];
	uint64_t lease, id;

	client_open(&one);
	client_fail(&one, to_attach("named"), -ENOENT);
	id = one.answer.id;
	memcpy(text, one.answer.error.text, sizeof(text));
	lease = client_allocate(&one, 100, "named");
	lose_and_resume();
	repeat_fail(to_attach("named"), id, WIRE_CODE_missing);
	ck_assert_str_eq(two.answer.error.text, restarts ? NOT_KNOWN : text);
	client_ok(&two, lease_message(WIRE_TYPE_free, lease));
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

/* It has changed nothing, so it is done afresh, and nothing was written. */
START_TEST(refused_allocate__is_done_afresh)
{
	uint64_t lease, id, bytes;
	size_t n_records;

	client_open(&one);
	lease = client_allocate(&one, 100, "named");
	n_records = ledger_count(stage_control.ledger);
	bytes = ledger_file_bytes(stage_control.ledger);
	for (unsigned i = 0; i < 2 * REPLY_CACHE_MAX; i++)
		client_fail(&one, to_allocate(100, "named"), -EEXIST);
	id = one.answer.id;
	ck_assert_uint_eq(ledger_count(stage_control.ledger), n_records);
	ck_assert_uint_eq(ledger_file_bytes(stage_control.ledger), bytes);
	client_ok(&one, lease_message(WIRE_TYPE_free, lease));
	lose_and_resume();
	(void)client_ask_as(&two, to_allocate(100, "named"), id, WIRE_TYPE_lease);
	ck_assert_uint_eq(two.answer.lease.n_keys, restarts ? 1 : 0);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	/* and this reply is remembered */
	lease = two.answer.lease.lease;
	(void)client_ask_as(&two, to_allocate(100, "named"), id, WIRE_TYPE_lease);
	ck_assert_uint_eq(two.answer.lease.lease, lease);
	client_ok(&two, lease_message(WIRE_TYPE_free, lease));
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

/* As many later requests as a client may have without a reply. */
START_TEST(refused_allocate__is_never_too_old)
{
	uint64_t lease, id;

	client_open(&one);
	for (unsigned i = 0; i < REPLY_CACHE_MAX; i++)
		client_fail(&one, lease_message(WIRE_TYPE_free, 99), -ESTALE);
	lease = client_allocate(&one, 100, "named");
	client_fail(&one, to_allocate(100, "named"), -EEXIST);
	id = one.answer.id;
	for (unsigned i = 0; i < REQUESTS_MAX - 1; i++)
		client_fail(&one, lease_message(WIRE_TYPE_free, 99), -ESTALE);
	lose_and_resume();
	repeat_fail(to_allocate(100, "named"), id, WIRE_CODE_exists);
	/* the repeated one is remembered, as later requests have come */
	client_ok(&two, lease_message(WIRE_TYPE_free, lease));
	repeat_fail(to_allocate(100, "named"), id, WIRE_CODE_exists);
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

/* Start to free a lease to which another session is attached; returns its id.  The reply waits
 * until the keys of that session are dead. */
static uint64_t free_attached(void)
{
	uint64_t lease;

	client_open(&one);
	lease = client_allocate(&one, 100, "named");
	client_open_connected(&other);
	(void)client_ask(&other, to_attach("named"), WIRE_TYPE_lease);
	client_send(&one, lease_message(WIRE_TYPE_free, lease));
	ck_assert_uint_eq(one.answers, 2);
	return lease;
}

START_TEST(waiting_free__is_answered_if_repeated)
{
	uint64_t lease = free_attached(), id = one.last_id;

	client_lose(&one);
	client_resume_start(&two, &one);
	ck_assert_uint_eq(two.answers, 1);
	ck_assert_uint_eq(two.connection.session->n_requests, 1);
	/* a request that was not repeated is not answered */
	for (int i = 0; i < _i; i++)
		client_send_as(&two, lease_message(WIRE_TYPE_free, lease), id);
	ck_assert_uint_eq(two.answers, 1);
	fake_fabric_settle();
	ck_assert_uint_eq(two.answers, _i ? 2 : 1);
	ck_assert_uint_eq(two.connection.session->n_requests, 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	(void)client_ask_as(&two, lease_message(WIRE_TYPE_free, lease), id,
			    WIRE_TYPE_ok);
}
END_TEST

START_TEST(waiting_free__outlasts_the_session)
{
	(void)free_attached();
	if (_i)
		client_send(&one, message(WIRE_TYPE_bye));
	client_lose(&one);
	stage_now_ms += STAGE_GRACE_MS;
	client_ok(&other, message(WIRE_TYPE_ping));
	pass(0);
	ck_assert_uint_eq(sessions_count(stage_control.sessions), 1);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

/* Several requests, whose connection is lost after `_i` events of the fabric, are repeated. */
START_TEST(requests__lost_at_any_time_take_effect_once)
{
	uint64_t shrinks, grows, ends, id;

	client_open_connected(&other);
	client_open_connected(&one);
	(void)client_channel(&one, 1);
	shrinks = client_allocate(&one, 2 * FAKE_PAGE, "shrinks");
	grows = client_allocate(&one, FAKE_PAGE, "");
	ends = client_allocate(&one, FAKE_PAGE, "ends");
	(void)client_ask(&other, to_attach("shrinks"), WIRE_TYPE_lease);
	(void)client_ask(&other, to_attach("ends"), WIRE_TYPE_lease);
	(void)client_allocate(&other, FAKE_PAGE, "shared");
	id = one.next_id;
	for (unsigned round = 0; round < 2; round++) {
		struct client *client = round ? &two : &one;

		client_send_as(client, to_resize(shrinks, FAKE_PAGE), id);
		client_send_as(client, to_resize(grows, 2 * FAKE_PAGE), id + 1);
		client_send_as(client, to_allocate(FAKE_PAGE, ""), id + 2);
		client_send_as(client, to_attach("shared"), id + 3);
		client_send_as(client, lease_message(WIRE_TYPE_free, ends), id + 4);
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
	ck_assert_uint_eq(two.connection.session->lease_client.n_attachments, 4);
	/* pages: shrinks 1, grows 2, the new lease 1, shared 1 */
	ck_assert_uint_eq(fake_pools_lent(), 5);
	client_ok(&two, lease_message(WIRE_TYPE_free, shrinks));
	client_ok(&two, by_name(WIRE_TYPE_remove, "shared"));
}
END_TEST

START_TEST(replies__are_remembered_for_the_latest_requests)
{
	uint64_t lease, id;

	client_open(&one);
	lease = client_allocate(&one, 100, "");
	id = one.answer.id;
	/* memory for those that there are, as most sessions need few replies */
	ck_assert_uint_eq(one.connection.session->replies.n, 1);
	for (unsigned i = 0; i < REPLY_CACHE_MAX; i++)
		client_fail(&one, lease_message(WIRE_TYPE_free, lease + 1 + i),
			    -ESTALE);
	lose_and_resume();
	for (unsigned i = 0; i < 2; i++)
		repeat_fail(to_allocate(100, ""), id, WIRE_CODE_forgotten);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	ck_assert_uint_eq(two.closed, 0);
	repeat_fail(lease_message(WIRE_TYPE_free, lease + 1), id + 1, WIRE_CODE_stale);
	/* requests without a lasting effect are handled again */
	(void)client_ask_as(&two, message(WIRE_TYPE_ping), id, WIRE_TYPE_ok);
	(void)client_ask_as(&two, lease_message(WIRE_TYPE_attach, lease), 1,
			    WIRE_TYPE_lease);
}
END_TEST

/* However long its errors are. */
START_TEST(errors__take_little_memory_and_ledger)
{
	char name[WIRE_NAME_MAX + 1];
	uint64_t ledger = stage_control.ledger->fresh, id;
	size_t memory;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	client_open(&one);
	memory = mallinfo2().uordblks;
	for (unsigned i = 0; i < 2 * REPLY_CACHE_MAX; i++)
		client_fail(&one, to_attach(name), -ENOENT);
	ck_assert_uint_le(stage_control.ledger->fresh - ledger, LEDGER_BYTES);
	ck_assert_uint_le(mallinfo2().uordblks - memory, MEMORY_BYTES);
	id = one.answer.id;
	lose_and_resume();
	repeat_fail(to_attach(name), id - REPLY_TEXTS_MAX, WIRE_CODE_missing);
	ck_assert_str_eq(two.answer.error.text, NOT_KNOWN);
	repeat_fail(to_attach(name), id - REPLY_TEXTS_MAX + 1, WIRE_CODE_missing);
	ck_assert_int_eq(strcmp(two.answer.error.text, NOT_KNOWN) == 0, restarts);
}
END_TEST

#define SHARERS (REPLIES_TOGETHER_MAX / REPLY_CACHE_MAX)

static int count(const struct ledger_key *, const void *, size_t, void *arg)
{
	(*(unsigned *)arg)++;
	return 0;
}

static void expect_replies(unsigned n, unsigned n_others)
{
	unsigned recorded = 0;

	ck_assert_uint_eq(tenants_find(&stage_tenants, "default")->n_replies, n);
	ck_assert_uint_eq(tenants_find(&stage_tenants, "other")->n_replies, n_others);
	(void)ledger_each(stage_control.ledger, LEDGER_REPLY, count, &recorded);
	ck_assert_uint_eq(recorded, n + n_others);
}

static void fail_often(struct client *client)
{
	for (unsigned i = 0; i < REPLY_CACHE_MAX; i++)
		client_fail(client, lease_message(WIRE_TYPE_free, 99), -ESTALE);
}

/* When the sessions of a tenant have its share, a further one has its latest replies alone; those
 * of another tenant do not lose by it. */
START_TEST(replies__of_a_tenant_have_a_limit)
{
	static struct client many[SHARERS];
	uint64_t id;

	stage_config.sessions_max = 2 * SHARERS;
	client_open(&one);
	client_open_as(&other, "other");
	for (unsigned i = 0; i < SHARERS; i++) {
		client_open(&many[i]);
		fail_often(&many[i]);
	}
	fail_often(&one);
	fail_often(&other);
	expect_replies(REPLIES_TOGETHER_MAX + REPLY_CACHE_MIN, REPLY_CACHE_MAX);
	id = one.answer.id;
	lose_and_resume();
	repeat_fail(lease_message(WIRE_TYPE_free, 99), id - REPLY_CACHE_MIN,
		    WIRE_CODE_forgotten);
	repeat_fail(lease_message(WIRE_TYPE_free, 99), id - REPLY_CACHE_MIN + 1,
		    WIRE_CODE_stale);
	/* read in another order, the share is the limit */
	expect_replies(REPLIES_TOGETHER_MAX + (restarts ? 0 : REPLY_CACHE_MIN),
		       REPLY_CACHE_MAX);
	client_ok(&two, message(WIRE_TYPE_bye));
	expect_replies(REPLIES_TOGETHER_MAX - (restarts ? REPLY_CACHE_MIN : 0),
		       REPLY_CACHE_MAX);
}
END_TEST

START_TEST(unknown_ids__are_new_requests)
{
	client_open(&one);
	one.next_id = 50;
	(void)client_allocate(&one, 100, "");
	(void)client_ask_as(&one, to_allocate(100, ""), 20, WIRE_TYPE_lease);
	ck_assert_uint_eq(fake_pools_lent(), 2);
	(void)client_ask_as(&one, to_allocate(100, ""), 20, WIRE_TYPE_lease);
	ck_assert_uint_eq(fake_pools_lent(), 2);
	/* the highest id is valid */
	(void)client_ask_as(&one, to_allocate(100, ""), UINT64_MAX, WIRE_TYPE_lease);
	(void)client_ask_as(&one, to_allocate(100, ""), UINT64_MAX, WIRE_TYPE_lease);
	ck_assert_uint_eq(fake_pools_lent(), 3);
	client_ok(&one, message(WIRE_TYPE_ping));
	ck_assert_uint_eq(one.closed, 0);
}
END_TEST

START_TEST(id__of_another_request_is_refused)
{
	uint64_t lease, id;

	client_open_connected(&one);
	lease = client_allocate(&one, 100, "");
	id = one.answer.id;
	if (_i >= 2) {
		/* the other request is still waiting */
		id = one.next_id;
		client_send(&one, to_allocate(100, ""));
	}
	client_send_as(&one,
		       _i % 2 ? message(WIRE_TYPE_ping)
			      : lease_message(WIRE_TYPE_free, lease),
		       id);
	ck_assert_int_eq((int)one.answer.type, (int)WIRE_TYPE_error);
	ck_assert_int_eq((int)one.answer.error.code, WIRE_CODE_malformed);
	ck_assert_uint_eq(one.closed, 1);
	client_lose(&one);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_pools_lent(), 1);
}
END_TEST

START_TEST(id__zero_is_refused)
{
	client_init(&one);
	if (_i)
		client_open(&one);
	client_send_as(&one, _i ? message(WIRE_TYPE_ping) : hello(), 0);
	ck_assert_uint_eq(one.answers, _i ? 1 : 0);
	ck_assert_uint_eq(client_event(&one, 1, WIRE_TYPE_error)->error.code,
			  WIRE_CODE_malformed);
	ck_assert_uint_eq(one.closed, 1);
	client_lose(&one);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("repeat", control_setup, control_teardown),
	      *restart = unit_case("restart", setup_restart, control_teardown);

	tcase_add_loop_test(tc, allocate__is_answered_again, 0, 2);
	tcase_add_test(tc, allocate__without_new_keys_ends_the_lease);
	tcase_add_loop_test(tc, waiting_allocate__is_undone_by_the_loss, 0, 2);
	tcase_add_test(tc, allocate__not_repeated_ends_with_the_session);
	tcase_add_test(tc, allocate__of_an_ended_lease_fails_with_estale);
	tcase_add_test(tc, attach__is_answered_again);
	tcase_add_test(tc, attach__without_new_keys_ends_the_attachment);
	tcase_add_test(tc, allocate__without_new_keys_leaves_a_lease_that_is_used);
	tcase_add_test(tc, changes__are_not_made_twice);
	tcase_add_test(tc, failure__is_answered_again);
	tcase_add_test(tc, refused_allocate__is_done_afresh);
	tcase_add_test(tc, refused_allocate__is_never_too_old);
	tcase_add_loop_test(tc, waiting_free__is_answered_if_repeated, 0, 3);
	tcase_add_loop_test(tc, waiting_free__outlasts_the_session, 0, 2);
	tcase_add_loop_test(tc, requests__lost_at_any_time_take_effect_once, 0, 20);
	tcase_add_test(tc, replies__are_remembered_for_the_latest_requests);
	tcase_add_test(tc, errors__take_little_memory_and_ledger);
	tcase_add_test(tc, replies__of_a_tenant_have_a_limit);
	tcase_add_test(tc, unknown_ids__are_new_requests);
	tcase_add_loop_test(tc, id__of_another_request_is_refused, 0, 4);
	tcase_add_loop_test(tc, id__zero_is_refused, 0, 2);
	tcase_add_loop_test(restart, allocate__is_answered_again, 0, 2);
	tcase_add_loop_test(restart, waiting_allocate__is_undone_by_the_loss, 0, 2);
	tcase_add_test(restart, failure__is_answered_again);
	tcase_add_test(restart, refused_allocate__is_done_afresh);
	tcase_add_test(restart, refused_allocate__is_never_too_old);
	tcase_add_test(restart, replies__are_remembered_for_the_latest_requests);
	tcase_add_test(restart, errors__take_little_memory_and_ledger);
	tcase_add_test(restart, replies__of_a_tenant_have_a_limit);
	tcase_add_test(restart, restart__restores_sessions);
	tcase_add_test(restart, restart__never_repeats_channel_numbers);
	tcase_add_test(restart, restart__keeps_the_placement_of_a_repeated_request);
	tcase_add_test(restart, restart__remembers_an_ended_lease);
	tcase_add_test(restart, restart__restores_nothing_of_ended_sessions);
	tcase_add_test(restart, restart__hides_names_with_control_characters);
	tcase_add_test(restart, restart__knows_no_session_of_the_future);
	tcase_add_test(restart, restart__ends_a_malformed_session_alone);
	tcase_add_test(restart, restart__does_not_know_of_a_malformed_answer);
	return unit_main();
}
