/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions open, are fenced, resumed and ended. */
#include <errno.h>
#include <string.h>

#include "unit/rmemd/control-stage.h"
#include "unit/unit.h"

static struct client one, two;

static struct wire_msg *attach_id(uint64_t lease)
{
	struct wire_msg *msg = message(WIRE_TYPE_attach);

	msg->attach.lease = lease;
	return msg;
}

START_TEST(hello__is_welcomed)
{
	client_open(&one);
	ck_assert_uint_ne(one.session, 0);
	ck_assert_uint_eq(one.answer.welcome.version, 1);
	ck_assert_uint_eq(one.answer.welcome.fence_ms, STAGE_FENCE_MS);
	ck_assert_uint_eq(one.answer.welcome.n_endpoints, STAGE_ENDPOINTS);
	ck_assert_uint_eq(one.answer.welcome.lease_bytes_max, FAKE_PAGES * FAKE_PAGE);
	ck_assert_uint_eq(one.answer.welcome.resumed, 0);
	client_open(&two);
	ck_assert_uint_ne(one.session, two.session);
	ck_assert_mem_ne(one.token, two.token, WIRE_TOKEN_BYTES);
	ck_assert_uint_eq(sessions_in("active"), 2);
}
END_TEST

/* Where memory is lent that not all others reach; TCP reaches all. */
START_TEST(welcome__says_where_channels_are_needed)
{
	(void)strcpy(stage_facts[1].device, "able1");
	stage_control.sole = 3;
	client_open(&one);
	ck_assert_uint_eq(one.answer.welcome.endpoints[0].flags & WIRE_ENDPOINT_SOLE,
			  0);
	ck_assert_uint_ne(one.answer.welcome.endpoints[1].flags & WIRE_ENDPOINT_SOLE,
			  0);
}
END_TEST

START_TEST(hello__is_refused)
{
	static const int errors[] = { -EPROTO, -ENOTSUP, -ENOTSUP,
				      -EACCES, -EACCES,  -ESTALE };
	struct wire_msg *msg = hello();

	switch (_i) {
	case 0:
		msg->hello.magic++;
		break;
	case 1:
		msg->hello.version_min = WIRE_VERSION_MAX + 1;
		msg->hello.version_max = WIRE_VERSION_MAX + 1;
		break;
	case 2:
		msg->hello.version_min = msg->hello.version_max = 0;
		break;
	case 3:
		msg->hello.tenant[0] = '\0';
		break;
	case 4:
		(void)strcpy(msg->hello.tenant, "defaul");
		break;
	default:
		msg->hello.resume = 77;
		break;
	}
	client_init(&one);
	client_fail(&one, msg, errors[_i]);
	ck_assert_uint_eq(one.closed, 1);
	ck_assert_uint_eq(sessions_count(stage_control.sessions), 0);
}
END_TEST

START_TEST(sessions__have_a_limit)
{
	static struct client clients[9];

	for (unsigned i = 0; i < 8; i++)
		client_open(&clients[i]);
	client_init(&clients[8]);
	client_fail(&clients[8], hello(), -EDQUOT);
	ck_assert_uint_eq(clients[8].closed, 1);
}
END_TEST

START_TEST(silence__fences)
{
	uint64_t lease;

	client_open(&one);
	(void)client_channel(&one, 0);
	lease = client_allocate(&one, 100, "");
	pass(STAGE_FENCE_MS - 1);
	ck_assert_uint_eq(sessions_in("active"), 1);
	ck_assert_uint_eq(sessions_next_ms(stage_control.sessions), stage_now_ms + 1);
	(void)client_ask(&one, message(WIRE_TYPE_ping), WIRE_TYPE_ok);
	pass(STAGE_FENCE_MS - 1);
	ck_assert_uint_eq(sessions_in("active"), 1);
	pass(1);
	ck_assert_uint_eq(sessions_in("fenced"), 1);
	ck_assert_uint_eq(one.closed, 1);
	ck_assert_int_eq((int)one.event.type, (int)WIRE_TYPE_closing);
	ck_assert_uint_eq(one.event.closing.reason, WIRE_REASON_FENCED);
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
	client_fail(&two, hello_again(&one), -ESTALE);
	ck_assert_uint_ne(lease, 0);
}
END_TEST

START_TEST(loss__fences_at_once)
{
	struct wire_msg *msg;

	client_open(&one);
	(void)client_channel(&one, 0);
	(void)client_allocate(&one, 100, "");
	(void)client_allocate(&one, 100, "named");
	client_lose(&one);
	ck_assert_uint_eq(sessions_in("fenced"), 1);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_fabric_alive(), 0);
	pass(STAGE_GRACE_MS);
	ck_assert_uint_eq(fake_pools_lent(), 1);
	client_open(&two);
	(void)client_ask(&two, message(WIRE_TYPE_ping), WIRE_TYPE_ok);
	msg = message(WIRE_TYPE_remove);
	(void)strcpy(msg->remove.name, "named");
	(void)client_ask(&two, msg, WIRE_TYPE_ok);
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
	client_init(&two);
	two.next_id = one.next_id;
	client_send(&two, hello_again(&one));
	ck_assert_uint_eq(two.answers, 0);
	ck_assert(two.connection.hello_pending);
	/* its grace does not end while it waits */
	pass(STAGE_GRACE_MS);
	ck_assert_uint_eq(sessions_in("fenced"), 1);
	fake_fabric_settle();
	ck_assert_uint_eq(two.answers, 1);
	ck_assert_uint_eq(two.authenticated, 1);
	ck_assert_uint_eq(two.answer.welcome.resumed, 1);
	ck_assert_uint_eq(two.session, one.session);
	ck_assert_mem_eq(two.token, one.token, WIRE_TOKEN_BYTES);
	ck_assert(!fake_fabric_key_works(old_key, 1));
	/* channels are gone, their endpoints are remembered */
	ck_assert(!client_admitted(&two, 1, channel));
	(void)client_ask(&two, attach_id(lease), WIRE_TYPE_lease);
	ck_assert_uint_eq(two.answer.lease.n_keys, 1);
	ck_assert_uint_eq(two.answer.lease.keys[0].endpoint, 1);
	ck_assert(fake_fabric_key_works(two.answer.lease.keys[0].rkey, 100));
	ck_assert_uint_gt(client_channel(&two, 1), channel);
}
END_TEST

START_TEST(resume__takes_over_a_living_connection)
{
	client_open(&one);
	(void)client_channel(&one, 0);
	(void)client_allocate(&one, 100, "");
	client_init(&two);
	(void)client_ask(&two, hello_again(&one), WIRE_TYPE_welcome);
	ck_assert_uint_eq(one.closed, 1);
	ck_assert_uint_eq(sessions_in("active"), 1);
	client_lose(&one);
	ck_assert_uint_eq(sessions_in("active"), 1);
	(void)client_ask(&two, message(WIRE_TYPE_ping), WIRE_TYPE_ok);
}
END_TEST

START_TEST(resume__needs_the_token)
{
	struct wire_msg *msg;

	client_open(&one);
	client_init(&two);
	msg = hello_again(&one);
	msg->hello.token[_i] ^= 1;
	client_fail(&two, msg, -ESTALE);
	ck_assert_uint_eq(one.closed, 0);
	ck_assert_uint_eq(sessions_in("active"), 1);
}
END_TEST

START_TEST(resume__may_be_given_up)
{
	static struct client three;

	client_open(&one);
	(void)client_channel(&one, 0);
	client_lose(&one);
	client_init(&two);
	client_send(&two, hello_again(&one));
	if (_i) {
		client_lose(&two);
		fake_fabric_settle();
		ck_assert_uint_eq(sessions_in("fenced"), 1);
	}
	client_init(&three);
	client_send(&three, hello_again(&one));
	fake_fabric_settle();
	ck_assert_uint_eq(two.closed, 1);
	ck_assert_uint_eq(two.answers, 0);
	ck_assert_uint_eq(three.answers, 1);
	ck_assert_int_eq((int)three.answer.type, (int)WIRE_TYPE_welcome);
}
END_TEST

/* Its connection is closed here, while it waits for the old keys. */
START_TEST(resume__closed_meanwhile_lets_grace_count_again)
{
	unsigned moves;

	client_open(&one);
	(void)client_channel(&one, 0);
	client_lose(&one);
	client_init(&two);
	client_send(&two, hello_again(&one));
	connection_close(&two.connection);
	ck_assert(sessions_next_ms(stage_control.sessions) == UINT64_MAX);
	moves = stage_timer_moves;
	fake_fabric_settle();
	ck_assert(sessions_next_ms(stage_control.sessions) != UINT64_MAX);
	ck_assert_uint_gt(stage_timer_moves, moves);
}
END_TEST

START_TEST(bye__is_answered_when_all_keys_are_dead)
{
	client_open(&one);
	(void)client_channel(&one, 0);
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

/* The session dies with requests at every stage; `_i` pieces of news come before. */
START_TEST(loss__with_requests_under_way)
{
	struct wire_msg *msg;
	uint64_t lease;

	client_open(&one);
	(void)client_channel(&one, 0);
	(void)client_channel(&one, 1);
	lease = client_allocate(&one, 100, "old");
	for (unsigned i = 0; i < 3; i++) {
		msg = message(WIRE_TYPE_allocate);
		msg->allocate.bytes = 40 * FAKE_PAGE;
		msg->allocate.node = -1;
		client_send(&one, msg);
	}
	msg = message(WIRE_TYPE_resize);
	msg->resize.lease = lease;
	msg->resize.bytes = FAKE_PAGE;
	client_send(&one, msg);
	for (int i = 0; i < _i; i++)
		(void)fake_fabric_step((unsigned)_i);
	client_lose(&one);
	fake_fabric_settle();
	ck_assert_uint_eq(fake_fabric_alive(), 0);
	client_resume(&two, &one);
	(void)client_ask(&two, attach_id(lease), WIRE_TYPE_lease);
	msg = message(WIRE_TYPE_free);
	msg->free.lease = lease;
	(void)client_ask(&two, msg, WIRE_TYPE_ok);
}
END_TEST

START_TEST(stop__tells_everybody)
{
	client_open(&one);
	client_open(&two);
	client_lose(&two);
	sessions_stop(stage_control.sessions, false);
	ck_assert_int_eq((int)one.event.type, (int)WIRE_TYPE_closing);
	ck_assert_uint_eq(one.event.closing.reason, WIRE_REASON_SHUTDOWN);
	ck_assert_uint_eq(one.closed, 1);
	ck_assert_uint_eq(two.events, 0);
	client_lose(&one);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("session");
	TCase *tc = tcase_create("session");

	tcase_add_checked_fixture(tc, control_setup, control_teardown);
	tcase_add_test(tc, hello__is_welcomed);
	tcase_add_test(tc, welcome__says_where_channels_are_needed);
	tcase_add_loop_test(tc, hello__is_refused, 0, 6);
	tcase_add_test(tc, sessions__have_a_limit);
	tcase_add_test(tc, silence__fences);
	tcase_add_test(tc, loss__fences_at_once);
	tcase_add_test(tc, resume__waits_for_the_old_keys);
	tcase_add_test(tc, resume__takes_over_a_living_connection);
	tcase_add_loop_test(tc, resume__needs_the_token, 0, WIRE_TOKEN_BYTES);
	tcase_add_loop_test(tc, resume__may_be_given_up, 0, 2);
	tcase_add_test(tc, resume__closed_meanwhile_lets_grace_count_again);
	tcase_add_loop_test(tc, bye__is_answered_when_all_keys_are_dead, 0, 2);
	tcase_add_loop_test(tc, loss__with_requests_under_way, 0, 12);
	tcase_add_test(tc, stop__tells_everybody);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
