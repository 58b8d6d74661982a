/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions are opened, fenced, resumed and ended. */
#include <errno.h>
#include <string.h>

#include "unit/rmemd/control-stage.h"
#include "unit/unit.h"

static struct client one, two;

START_TEST(hello__is_welcomed)
{
	client_open(&one);
	ck_assert_uint_ne(one.session, 0);
	ck_assert_uint_eq(one.answer.welcome.version, 1);
	ck_assert_uint_eq(one.answer.welcome.fence_ms, STAGE_SILENCE_MS);
	ck_assert_uint_eq(one.answer.welcome.requests_max, 256);
	ck_assert_uint_eq(one.answer.welcome.stream_bytes_max, 1048576);
	ck_assert_uint_eq(one.answer.welcome.inband_bytes_max, 262144);
	ck_assert_uint_eq(one.answer.welcome.inband_requests_max, 8);
	ck_assert_uint_eq(one.answer.welcome.n_endpoints, STAGE_ENDPOINTS);
	ck_assert_uint_eq(one.answer.welcome.lease_bytes_max, FAKE_PAGES * FAKE_PAGE);
	ck_assert_uint_eq(one.answer.welcome.resumed, 0);
	client_open(&two);
	ck_assert_uint_ne(one.session, two.session);
	ck_assert_mem_ne(one.token, two.token, WIRE_TOKEN_BYTES);
	ck_assert_mem_ne(one.secret, two.secret, WIRE_SECRET_BYTES);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 2);
}
END_TEST

/* A sole endpoint lends memory that no other RDMA device lends; TCP lends all memory. */
START_TEST(welcome__flags_endpoints_that_need_a_channel)
{
	(void)strcpy(stage_endpoint_info[1].device, "able1");
	stage_control.sole = 3;
	client_open(&one);
	ck_assert_uint_eq(one.answer.welcome.endpoints[0].flags & WIRE_ENDPOINT_SOLE,
			  0);
	ck_assert_uint_ne(one.answer.welcome.endpoints[1].flags & WIRE_ENDPOINT_SOLE,
			  0);
}
END_TEST

static const struct {
	uint32_t magic;
	uint16_t version_min, version_max;
	const char *tenant;
	uint64_t resume;
	int err;
} refused[] = {
	{ WIRE_MAGIC + 1, 1, 1, "default", 0, -EPROTO },
	{ WIRE_MAGIC, WIRE_VERSION_MAX + 1, WIRE_VERSION_MAX + 1, "default", 0,
	  -ENOTSUP },
	{ WIRE_MAGIC, 0, 0, "default", 0, -ENOTSUP },
	{ WIRE_MAGIC, 1, 1, "", 0, -EACCES },
	{ WIRE_MAGIC, 1, 1, "defaul", 0, -EACCES },
	{ WIRE_MAGIC, 1, 1, "default", 77, -ESTALE },
};

START_TEST(hello__is_refused)
{
	struct wire_msg *msg = hello_of(refused[_i].tenant);

	msg->hello.magic = refused[_i].magic;
	msg->hello.version_min = refused[_i].version_min;
	msg->hello.version_max = refused[_i].version_max;
	msg->hello.resume = refused[_i].resume;
	client_init(&one);
	client_fail(&one, msg, refused[_i].err);
	ck_assert_uint_eq(one.closed, 1);
	ck_assert_uint_eq(sessions_count(stage_control.sessions), 0);
}
END_TEST

/* A later client offers what this server does not know. */
START_TEST(welcome__has_the_capabilities_of_both)
{
	struct wire_msg *msg = hello();

	msg->hello.capabilities = UINT32_MAX;
	client_init(&one);
	(void)client_ask(&one, msg, WIRE_TYPE_welcome);
	ck_assert_uint_eq(one.answer.welcome.capabilities, WIRE_CAPABILITIES);
	client_lose(&one);
	msg = hello_resume(&one);
	msg->hello.capabilities = 0;
	client_init(&two);
	(void)client_ask(&two, msg, WIRE_TYPE_welcome);
	ck_assert_uint_eq(two.answer.welcome.capabilities, 0);
}
END_TEST

START_TEST(sessions__have_a_limit)
{
	static struct client clients[9];

	/* two are kept for the other tenant */
	for (unsigned i = 0; i < 8; i++)
		client_open_as(&clients[i], i < 6 ? "default" : "other");
	client_init(&clients[8]);
	client_fail(&clients[8], hello(), -EDQUOT);
	ck_assert_uint_eq(clients[8].closed, 1);
}
END_TEST

START_TEST(sessions__are_no_more_than_descriptors)
{
	stage_control.sessions_fit = 1;
	client_open(&one);
	client_init(&two);
	client_fail(&two, hello(), -EDQUOT);
	stage_control.sessions_fit = 100;
	client_open(&two);
}
END_TEST

/* Sessions that have lost their clients and own nothing make room, the oldest first; until then
 * they can be resumed. */
START_TEST(sessions__without_leases_make_room)
{
	static struct client clients[8], fresh[4], resumed[3];
	struct client *leaser = &clients[0], *attached = &clients[1];

	stage_config.sessions_max = 10;
	for (unsigned i = 0; i < 8; i++)
		client_open_connected(&clients[i]);
	(void)client_allocate(leaser, 100, "");
	(void)client_allocate(&clients[7], 100, "named");
	(void)client_ask(attached, to_attach("named"), WIRE_TYPE_lease);
	for (unsigned i = 0; i < 7; i++)
		client_lose(&clients[i]);
	/* they count until their keys are dead */
	client_init(&one);
	client_fail(&one, hello(), -EDQUOT);
	fake_fabric_settle();
	for (unsigned i = 0; i < 4; i++)
		client_open(&fresh[i]);
	client_resume(&resumed[0], &clients[6]);
	client_init(&one);
	client_fail(&one, hello(), -EDQUOT);
	client_resume(&resumed[1], leaser);
	client_resume(&resumed[2], attached);
	client_init(&one);
	client_fail(&one, hello_resume(&clients[2]), -ESTALE);
	fake_fabric_settle();
}
END_TEST

/* Its reply may have been lost. */
START_TEST(resume__of_a_session_without_leases_repeats_requests)
{
	uint64_t lease, id;

	client_open_connected(&one);
	lease = client_allocate(&one, 100, "");
	id = one.next_id;
	client_ok(&one, lease_message(WIRE_TYPE_free, lease));
	client_lose(&one);
	fake_fabric_settle();
	pass(STAGE_FENCE_MS);
	client_resume(&two, &one);
	(void)client_ask_as(&two, lease_message(WIRE_TYPE_free, lease), id,
			    WIRE_TYPE_ok);
}
END_TEST

START_TEST(silence__fences)
{
	uint64_t lease;

	client_open_connected(&one);
	lease = client_allocate(&one, 100, "");
	pass(STAGE_SILENCE_MS - 1);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 1);
	ck_assert_uint_eq(sessions_next_ms(stage_control.sessions), stage_now_ms + 1);
	client_ok(&one, message(WIRE_TYPE_ping));
	pass(STAGE_SILENCE_MS - 1);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 1);
	pass(1);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_FENCED), 1);
	ck_assert_uint_eq(one.closed, 1);
	(void)client_event(&one, 1, WIRE_TYPE_fenced);
	ck_assert(!client_admitted(&one, 0, 1));
	fake_fabric_settle();
	ck_assert_uint_eq(fake_fabric_alive() + fake_fabric_sessions(), 0);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	pass(STAGE_GRACE_MS - 1);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	pass(1);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	ck_assert_uint_eq(sessions_count(stage_control.sessions), 0);
	client_init(&two);
	client_fail(&two, hello_resume(&one), -ESTALE);
	ck_assert_uint_ne(lease, 0);
}
END_TEST

/* Also when the session that was opened first was heard last. */
START_TEST(silence__fences_each_at_its_time)
{
	client_open(&one);
	pass(100);
	client_open(&two);
	pass(100);
	client_ok(&one, message(WIRE_TYPE_ping));
	pass(STAGE_SILENCE_MS - 101);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 2);
	pass(1);
	ck_assert_uint_eq(two.closed, 1);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 1);
	ck_assert_uint_eq(sessions_next_ms(stage_control.sessions), stage_now_ms + 100);
	/* a reload shortens the time */
	pass(50);
	stage_config.fence_ms = STAGE_FENCE_MS / 2;
	ck_assert_uint_le(sessions_next_ms(stage_control.sessions), stage_now_ms);
	pass(0);
	ck_assert_uint_eq(one.closed, 1);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 0);
}
END_TEST

static const struct {
	unsigned fence_ms, silence_ms;
} fences[] = { { 20, 19 }, { 2000, 1875 }, { 600000, 599750 } };

/* The loop may read the last heartbeat late, and fence late: the keys are dead in time. */
START_TEST(silence__fences_before_the_published_time)
{
	uint64_t key, delay_ms = fences[_i].fence_ms - fences[_i].silence_ms, sent_ms;

	stage_config.fence_ms = fences[_i].fence_ms;
	client_open_connected(&one);
	ck_assert_uint_eq(one.answer.channel.channel, 1);
	(void)client_allocate(&one, 100, "");
	key = one.answer.lease.keys[0].rkey;
	sent_ms = stage_now_ms;
	stage_now_ms += delay_ms / 2;
	client_ok(&one, message(WIRE_TYPE_ping));
	pass(sessions_next_ms(stage_control.sessions) - stage_now_ms - 1);
	ck_assert(fake_fabric_key_works(key, 100));
	/* the client does not use its keys any more, as it counts from the sending */
	ck_assert_uint_ge(stage_now_ms + 1 - sent_ms, fences[_i].silence_ms);
	pass(1 + delay_ms / 2);
	fake_fabric_settle();
	ck_assert(!fake_fabric_key_works(key, 100));
	ck_assert_uint_le(stage_now_ms - sent_ms, fences[_i].fence_ms);
}
END_TEST

/* The daemon was paused, and has not read yet what the client sent meanwhile. */
START_TEST(silence__is_not_input_that_waits)
{
	client_open_connected(&one);
	one.unread = true;
	pass(2 * STAGE_FENCE_MS);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 1);
	/* it is due until the input is read */
	ck_assert_uint_le(sessions_next_ms(stage_control.sessions), stage_now_ms);
	one.unread = false;
	if (_i)
		client_ok(&one, message(WIRE_TYPE_ping));
	pass(0);
	/* a part of a frame is no sign of life */
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), (unsigned)_i);
	ck_assert_uint_eq(one.closed, !_i);
}
END_TEST

START_TEST(loss__fences_at_once)
{
	client_open_connected(&one);
	(void)client_allocate(&one, 100, "");
	(void)client_allocate(&one, 100, "named");
	client_lose(&one);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_FENCED), 1);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_fabric_alive(), 0);
	pass(STAGE_GRACE_MS);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	client_open(&two);
	client_ok(&two, message(WIRE_TYPE_ping));
	client_ok(&two, by_name(WIRE_TYPE_remove, "named"));
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

START_TEST(resume__waits_for_the_old_keys)
{
	uint64_t lease, old_key;
	uint32_t channel;

	client_open(&one);
	channel = client_channel(&one, 1);
	lease = client_allocate(&one, 100, "");
	old_key = one.answer.lease.keys[0].rkey;
	client_lose(&one);
	client_resume_start(&two, &one);
	ck_assert_uint_eq(two.answers, 0);
	ck_assert(two.connection.hello_pending);
	/* the grace time does not end while the client waits */
	pass(STAGE_GRACE_MS);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_FENCED), 1);
	fake_fabric_settle();
	ck_assert_uint_eq(two.answers, 1);
	ck_assert_uint_eq(two.authenticated, 1);
	ck_assert_uint_eq(two.answer.welcome.resumed, 1);
	ck_assert_uint_eq(two.session, one.session);
	ck_assert_mem_eq(two.token, one.token, WIRE_TOKEN_BYTES);
	ck_assert(!fake_fabric_key_works(old_key, 1));
	/* the channels are closed, but their endpoints are remembered */
	ck_assert(!client_admitted(&two, 1, channel));
	(void)client_ask(&two, lease_message(WIRE_TYPE_attach, lease), WIRE_TYPE_lease);
	ck_assert_uint_eq(two.answer.lease.n_keys, 1);
	ck_assert_uint_eq(two.answer.lease.keys[0].endpoint, 1);
	ck_assert(fake_fabric_key_works(two.answer.lease.keys[0].rkey, 100));
	ck_assert_uint_gt(client_channel(&two, 1), channel);
}
END_TEST

START_TEST(resume__replaces_an_open_connection)
{
	client_open_connected(&one);
	(void)client_allocate(&one, 100, "");
	client_resume(&two, &one);
	ck_assert_uint_eq(one.closed, 1);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 1);
	client_lose(&one);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 1);
	client_ok(&two, message(WIRE_TYPE_ping));
}
END_TEST

START_TEST(resume__needs_the_token)
{
	struct wire_msg *msg;

	client_open(&one);
	client_init(&two);
	msg = hello_resume(&one);
	msg->hello.token[_i] ^= 1;
	client_fail(&two, msg, -ESTALE);
	ck_assert_uint_eq(one.closed, 0);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_ACTIVE), 1);
}
END_TEST

START_TEST(resume__is_replaced_by_a_later_resume)
{
	static struct client three;

	client_open_connected(&one);
	client_lose(&one);
	client_resume_start(&two, &one);
	if (_i) {
		client_lose(&two);
		fake_fabric_settle();
		ck_assert_uint_eq(sessions_in(WIRE_SESSION_FENCED), 1);
	}
	client_resume_start(&three, &one);
	fake_fabric_settle();
	ck_assert_uint_eq(two.closed, 1);
	ck_assert_uint_eq(two.answers, 0);
	ck_assert_uint_eq(three.answers, 1);
	ck_assert_int_eq((int)three.answer.type, (int)WIRE_TYPE_welcome);
}
END_TEST

/* The client gave up one attempt to resume, before its hello or before its reply, and tries again:
 * the session is resumed once. */
START_TEST(resume__is_not_for_a_client_that_gave_up)
{
	static struct client three;

	client_open_connected(&one);
	client_lose(&one);
	client_init(&two);
	two.next_id = one.next_id;
	two.abandoned = !_i;
	client_send(&two, hello_resume(&one));
	ck_assert_uint_eq(two.closed, !_i);
	two.abandoned = true;
	fake_fabric_settle();
	ck_assert_uint_eq(two.answers, 0);
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_FENCED), 1);
	ck_assert(sessions_next_ms(stage_control.sessions) != UINT64_MAX);
	client_resume(&three, &one);
	ck_assert_uint_eq(stage_control.counters.sessions_resumed, 1);
	ck_assert_uint_eq(stage_control.counters.sessions_fenced, 1);
}
END_TEST

/* The daemon closes the connection, which waits for the end of the old keys. */
START_TEST(resume__closed_while_waiting_restarts_the_grace_time)
{
	unsigned moves;

	client_open_connected(&one);
	client_lose(&one);
	client_resume_start(&two, &one);
	connection_close(&two.connection);
	ck_assert(sessions_next_ms(stage_control.sessions) == UINT64_MAX);
	moves = stage_timer_moves;
	fake_fabric_settle();
	ck_assert(sessions_next_ms(stage_control.sessions) != UINT64_MAX);
	ck_assert_uint_gt(stage_timer_moves, moves);
}
END_TEST

START_TEST(bye__is_answered_after_all_keys_are_dead)
{
	client_open_connected(&one);
	(void)client_allocate(&one, 100, "");
	client_send(&one, message(WIRE_TYPE_bye));
	ck_assert_uint_eq(sessions_count(stage_control.sessions), 0);
	ck_assert(!client_admitted(&one, 0, 1));
	if (_i) {
		client_lose(&one);
		fake_fabric_settle();
	} else {
		while (fake_fabric_alive() + fake_fabric_sessions()) {
			ck_assert_int_ne((int)one.answer.type, (int)WIRE_TYPE_ok);
			(void)fake_fabric_step(0);
		}
		ck_assert_int_eq((int)one.answer.type, (int)WIRE_TYPE_ok);
		ck_assert_uint_eq(one.closed, 1);
	}
	ck_assert_uint_eq(fake_pools_lent(), 0);
}
END_TEST

/* The connection is lost with waiting requests, after `_i` events of the fabric. */
START_TEST(loss__undoes_waiting_requests)
{
	uint64_t lease;

	client_open_connected(&one);
	(void)client_channel(&one, 1);
	lease = client_allocate(&one, 100, "old");
	for (unsigned i = 0; i < 3; i++)
		client_send(&one, to_allocate(40 * FAKE_PAGE, ""));
	client_send(&one, to_resize(lease, FAKE_PAGE));
	for (int i = 0; i < _i; i++)
		(void)fake_fabric_step((unsigned)_i);
	client_lose(&one);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_fabric_alive(), 0);
	client_resume(&two, &one);
	(void)client_ask(&two, lease_message(WIRE_TYPE_attach, lease), WIRE_TYPE_lease);
	client_ok(&two, lease_message(WIRE_TYPE_free, lease));
}
END_TEST

START_TEST(kick__ends_the_session_at_once)
{
	static struct client late;
	uint64_t lease, key;

	client_open_connected(&one);
	client_open_connected(&two);
	lease = client_allocate(&one, 100, "");
	key = one.answer.lease.keys[0].rkey;
	(void)client_allocate(&one, 100, "named");
	ck_assert_int_eq(sessions_kick(stage_control.sessions, one.session + 7),
			 -ENOENT);
	ck_assert_int_eq(sessions_kick(stage_control.sessions, one.session), 0);
	ck_assert_uint_eq(client_event(&one, 1, WIRE_TYPE_closing)->closing.reason,
			  WIRE_REASON_REVOKED);
	ck_assert_uint_eq(one.closed, 1);
	ck_assert(!fake_fabric_key_works(key, 1));
	ck_assert_int_eq(sessions_kick(stage_control.sessions, one.session), -ENOENT);
	fake_fabric_settle();
	/* the ephemeral lease has ended, the named one is there */
	ck_assert_uint_eq(fake_pools_lent(), 1);
	client_lose(&one);
	client_init(&late);
	client_fail(&late, hello_resume(&one), -ESTALE);
	/* the other session goes on */
	client_ok(&two, message(WIRE_TYPE_ping));
	(void)client_ask(&two, to_attach("named"), WIRE_TYPE_lease);
	ck_assert_uint_ne(two.answer.lease.lease, lease);
	ck_assert_uint_eq(two.events, 0);
	client_ok(&two, by_name(WIRE_TYPE_remove, "named"));
}
END_TEST

/* Fenced, or while a client that has resumed waits until the old keys are dead. */
START_TEST(kick__ends_a_fenced_session)
{
	client_open_connected(&one);
	(void)client_allocate(&one, 100, "");
	client_lose(&one);
	if (_i) {
		client_resume_start(&two, &one);
		ck_assert_uint_eq(two.answers, 0);
	}
	ck_assert_int_eq(sessions_kick(stage_control.sessions, one.session), 0);
	if (_i) {
		ck_assert_int_eq((int)two.answer.type, (int)WIRE_TYPE_error);
		ck_assert_uint_eq(two.answer.error.code, WIRE_CODE_stale);
		ck_assert_str_eq(two.answer.error.text,
				 "the administrator has ended the session");
		ck_assert_uint_eq(two.closed, 1);
	}
	fake_fabric_settle();
	ck_assert_uint_eq(sessions_in(WIRE_SESSION_FENCED), 0);
	ck_assert_uint_eq(fake_pools_lent(), 0);
	if (_i)
		client_lose(&two);
	client_init(&two);
	client_fail(&two, hello_resume(&one), -ESTALE);
}
END_TEST

START_TEST(stop__sends_closing_to_connected_clients)
{
	client_open(&one);
	client_open(&two);
	client_lose(&two);
	sessions_stop(stage_control.sessions, false);
	ck_assert_uint_eq(client_event(&one, 2, WIRE_TYPE_closing)->closing.reason,
			  WIRE_REASON_SHUTDOWN);
	ck_assert_uint_eq(one.closed, 1);
	ck_assert_uint_eq(two.events, 0);
	client_lose(&one);
}
END_TEST

/* A client that may resume is told that the server stops, and no more. */
START_TEST(stop__is_announced)
{
	client_open(&one);
	sessions_stop(stage_control.sessions, true);
	ck_assert_uint_eq(
		client_event(&one, 1, WIRE_TYPE_draining)->draining.deadline_ms, 0);
	ck_assert_uint_eq(one.closed, 1);
	client_lose(&one);
}
END_TEST

/* A client reports its writes as ended when it has been silent for the time of its welcome. */
START_TEST(silence__ends_the_data_path_as_the_welcome_says)
{
	uint64_t told_ms;

	stage_config.fence_ms = fences[_i].fence_ms;
	client_open(&one);
	told_ms = one.answer.welcome.fence_ms;
	(void)client_channel(&one, 0);
	stage_now_ms++;
	client_ok(&one, message(WIRE_TYPE_ping));
	ck_assert_uint_eq(fake_fabric_until_ns(), (stage_now_ms + told_ms) * NS_PER_MS);
	client_lose(&one);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("session", control_setup, control_teardown);

	tcase_add_test(tc, hello__is_welcomed);
	tcase_add_test(tc, welcome__flags_endpoints_that_need_a_channel);
	tcase_add_loop_test(tc, hello__is_refused, 0,
			    sizeof(refused) / sizeof(refused[0]));
	tcase_add_test(tc, welcome__has_the_capabilities_of_both);
	tcase_add_test(tc, sessions__have_a_limit);
	tcase_add_test(tc, sessions__are_no_more_than_descriptors);
	tcase_add_test(tc, sessions__without_leases_make_room);
	tcase_add_test(tc, resume__of_a_session_without_leases_repeats_requests);
	tcase_add_test(tc, silence__fences);
	tcase_add_test(tc, silence__fences_each_at_its_time);
	tcase_add_loop_test(tc, silence__fences_before_the_published_time, 0,
			    sizeof(fences) / sizeof(fences[0]));
	tcase_add_loop_test(tc, silence__ends_the_data_path_as_the_welcome_says, 0,
			    sizeof(fences) / sizeof(fences[0]));
	tcase_add_loop_test(tc, silence__is_not_input_that_waits, 0, 2);
	tcase_add_test(tc, loss__fences_at_once);
	tcase_add_test(tc, resume__waits_for_the_old_keys);
	tcase_add_test(tc, resume__replaces_an_open_connection);
	tcase_add_loop_test(tc, resume__needs_the_token, 0, WIRE_TOKEN_BYTES);
	tcase_add_loop_test(tc, resume__is_replaced_by_a_later_resume, 0, 2);
	tcase_add_loop_test(tc, resume__is_not_for_a_client_that_gave_up, 0, 2);
	tcase_add_test(tc, resume__closed_while_waiting_restarts_the_grace_time);
	tcase_add_loop_test(tc, bye__is_answered_after_all_keys_are_dead, 0, 2);
	tcase_add_loop_test(tc, loss__undoes_waiting_requests, 0, 12);
	tcase_add_test(tc, kick__ends_the_session_at_once);
	tcase_add_loop_test(tc, kick__ends_a_fenced_session, 0, 2);
	tcase_add_test(tc, stop__sends_closing_to_connected_clients);
	tcase_add_test(tc, stop__is_announced);
	return unit_main();
}
