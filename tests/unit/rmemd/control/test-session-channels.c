/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels of sessions are admitted by token, joined without rdma_cm, and told of when they end. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "unit/rmemd/control-stage.h"
#include "rmemd/control/session_table.h"
#include "unit/unit.h"

static struct client one, two;

static struct wire_msg *hello_for(uint8_t fabric)
{
	struct wire_msg *msg = hello();

	msg->hello.channel = fabric;
	return msg;
}

START_TEST(hello__brings_a_channel)
{
	const struct wire_welcome *welcome;
	uint32_t channel;

	stage_facts[1].kind = FABRIC_VERBS;
	client_init(&one);
	welcome = &client_ask(&one, hello_for(WIRE_FABRIC_VERBS), WIRE_TYPE_welcome)
			   ->welcome;
	channel = welcome->channel;
	ck_assert_uint_ne(channel, 0);
	ck_assert_uint_eq(welcome->endpoint, 1);
	ck_assert_uint_eq(fake_fabric_sessions(), 1);
	ck_assert(!client_admitted(&one, 0, channel));
	ck_assert(client_admitted(&one, 1, channel));
	ck_assert(!client_admitted(&one, 1, channel));
	/* it is one of those that the session may have */
	for (unsigned i = 1; i < 4; i++)
		ck_assert_uint_gt(client_channel(&one, 0), channel);
	client_fail(&one, message(WIRE_TYPE_open_channel), -EDQUOT);
	/* a session that resumes gets none */
	client_lose(&one);
	client_init(&two);
	welcome = &client_ask(&two, hello_again(&one), WIRE_TYPE_welcome)->welcome;
	ck_assert_uint_eq(welcome->channel, 0);
}
END_TEST

START_TEST(hello__brings_no_channel)
{
	static const uint8_t fabrics[] = { WIRE_FABRIC_AUTO, WIRE_FABRIC_VERBS, 3, 255,
					   WIRE_FABRIC_TCP };

	/* the last one would be there */
	if (fabrics[_i] == WIRE_FABRIC_TCP)
		fake_fabric_fail_session(-ENODEV);
	client_init(&one);
	(void)client_ask(&one, hello_for(fabrics[_i]), WIRE_TYPE_welcome);
	ck_assert_uint_eq(one.answer.welcome.channel, 0);
	ck_assert_uint_eq(fake_fabric_sessions(), 0);
	fake_fabric_fail_session(0);
	(void)client_channel(&one, 0);
}
END_TEST

/* Nothing is spent on who may not come in. */
START_TEST(hello__that_is_refused_brings_no_channel)
{
	struct wire_msg *msg = hello_for(WIRE_FABRIC_TCP);

	(void)strcpy(msg->hello.tenant, "defaul");
	client_init(&one);
	client_fail(&one, msg, -EACCES);
	ck_assert_uint_eq(fake_fabric_sessions(), 0);
}
END_TEST

START_TEST(channels__are_admitted_once)
{
	struct fabric_hello asks;
	struct wire_msg *msg;
	uint32_t channel;

	client_open(&one);
	client_open(&two);
	msg = message(WIRE_TYPE_open_channel);
	msg->open_channel.endpoint = 1;
	channel = client_ask(&one, msg, WIRE_TYPE_channel)->channel.channel;
	ck_assert(!client_admitted(&one, 0, channel));
	ck_assert(!client_admitted(&one, 1, channel + 1));
	ck_assert(!client_admitted(&one, 1, 0));
	ck_assert(!client_admitted(&two, 1, channel));
	asks = (struct fabric_hello){ .session = one.session, .channel = channel };
	memcpy(asks.token, one.token, sizeof(asks.token));
	asks.token[15] ^= 0x80;
	ck_assert_ptr_null(sessions_admit(stage_control.sessions, 1, &asks));
	asks.session = 12345;
	ck_assert_ptr_null(sessions_admit(stage_control.sessions, 1, &asks));
	ck_assert(client_admitted(&one, 1, channel));
	ck_assert(!client_admitted(&one, 1, channel));
	ck_assert_uint_eq(stage_control.counters.channels_refused, 7);
}
END_TEST

START_TEST(channels__have_a_limit)
{
	struct wire_msg *msg;
	uint32_t first;

	client_open(&one);
	msg = message(WIRE_TYPE_open_channel);
	msg->open_channel.endpoint = STAGE_ENDPOINTS;
	client_fail(&one, msg, -EINVAL);
	fake_fabric_fail_session(-ENOMEM);
	client_fail(&one, message(WIRE_TYPE_open_channel), -ENOMEM);
	fake_fabric_fail_session(0);
	first = client_channel(&one, 0);
	for (unsigned i = 1; i < 4; i++)
		(void)client_ask(&one, message(WIRE_TYPE_open_channel),
				 WIRE_TYPE_channel);
	client_fail(&one, message(WIRE_TYPE_open_channel), -EDQUOT);
	msg = message(WIRE_TYPE_close_channel);
	msg->close_channel.channel = first;
	(void)client_ask(&one, msg, WIRE_TYPE_ok);
	(void)client_ask(&one, msg, WIRE_TYPE_ok);
	msg->close_channel.channel = 77;
	client_fail(&one, msg, -EINVAL);
	ck_assert_uint_gt(client_channel(&one, 0), first + 3);
	/* grants that nobody used make room in the end */
	client_fail(&one, message(WIRE_TYPE_open_channel), -EDQUOT);
	for (unsigned i = 0; i < 30; i++) {
		stage_now_ms += 1000;
		(void)client_ask(&one, message(WIRE_TYPE_ping), WIRE_TYPE_ok);
	}
	(void)client_channel(&one, 0);
}
END_TEST

static struct wire_msg *join(uint32_t channel, uint32_t qpn)
{
	struct wire_msg *msg = message(WIRE_TYPE_join_channel);

	msg->join_channel.channel = channel;
	msg->join_channel.qpn = qpn;
	msg->join_channel.psn = 2;
	msg->join_channel.gid[15] = 3;
	msg->join_channel.lid = 4;
	msg->join_channel.pkey = 5;
	msg->join_channel.mtu = 1024;
	msg->join_channel.rd_atomic = 6;
	msg->join_channel.retry_count = 7;
	msg->join_channel.rnr_retry_count = 8;
	return msg;
}

static int first_status(const struct session_status *status, void *arg)
{
	*(struct session_status *)arg = *status;
	return 1;
}

START_TEST(channels__are_joined_once)
{
	const struct wire_joined *joined;
	struct session_status status;
	struct wire_msg *msg;
	uint32_t channel, other;

	stage_facts[1].flags = FABRIC_ENDPOINT_DIRECT;
	client_open(&one);
	client_open(&two);
	msg = message(WIRE_TYPE_open_channel);
	msg->open_channel.endpoint = 1;
	channel = client_ask(&one, msg, WIRE_TYPE_channel)->channel.channel;
	other = client_ask(&one, message(WIRE_TYPE_open_channel), WIRE_TYPE_channel)
			->channel.channel;
	/* another session's, one not granted, one of rdma_cm's */
	client_fail(&two, join(channel, 9), -EINVAL);
	client_fail(&one, join(other + 1, 9), -EINVAL);
	client_fail(&one, join(other, 9), -ENOTSUP);
	joined = &client_ask(&one, join(channel, 9), WIRE_TYPE_joined)->joined;
	ck_assert_uint_eq(joined->qpn, 10);
	ck_assert_uint_eq(joined->psn, 2);
	ck_assert_uint_eq(joined->gid[15], 3);
	ck_assert_uint_eq(joined->lid, 4);
	ck_assert_uint_eq(joined->pkey, 5);
	ck_assert_uint_eq(joined->mtu, 512);
	ck_assert_uint_eq(joined->rd_atomic, 6);
	ck_assert_uint_eq(joined->retry_count, 7);
	ck_assert_uint_eq(joined->rnr_retry_count, 8);
	ck_assert_int_eq(sessions_each(stage_control.sessions, first_status, &status),
			 1);
	ck_assert_uint_eq(status.channels, 1);
	client_fail(&one, join(channel, 9), -EINVAL);
	/* what the fabric refuses is gone, and counted */
	msg = message(WIRE_TYPE_open_channel);
	msg->open_channel.endpoint = 1;
	other = client_ask(&one, msg, WIRE_TYPE_channel)->channel.channel;
	client_fail(&one, join(other, 1 << 24), -EINVAL);
	client_fail(&one, join(other, 9), -EINVAL);
	ck_assert_uint_eq(stage_control.counters.channels_refused, 1);
}
END_TEST

static struct wire_msg *hello_with(uint32_t qpn)
{
	const struct wire_join_channel end = join(0, qpn)->join_channel;
	struct wire_msg *msg = hello_for(WIRE_FABRIC_VERBS);

	WIRE_END_COPY(&msg->hello, &end);
	return msg;
}

START_TEST(hello__joins_its_channel)
{
	const struct wire_welcome *welcome;
	struct session_status status;
	uint32_t channel;

	stage_facts[1].kind = FABRIC_VERBS;
	stage_facts[1].flags = FABRIC_ENDPOINT_DIRECT;
	client_init(&one);
	welcome = &client_ask(&one, hello_with(9), WIRE_TYPE_welcome)->welcome;
	channel = welcome->channel;
	ck_assert_uint_ne(channel, 0);
	ck_assert_uint_eq(welcome->endpoint, 1);
	ck_assert_uint_eq(welcome->qpn, 10);
	ck_assert_uint_eq(welcome->psn, 2);
	ck_assert_uint_eq(welcome->gid[15], 3);
	ck_assert_uint_eq(welcome->mtu, 512);
	ck_assert_int_eq(sessions_each(stage_control.sessions, first_status, &status),
			 1);
	ck_assert_uint_eq(status.channels, 1);
	client_fail(&one, join(channel, 9), -EINVAL);
	/* a session that resumes gets none */
	client_lose(&one);
	client_resume(&two, &one);
	ck_assert_uint_eq(two.answer.welcome.qpn, 0);
}
END_TEST

static const struct {
	unsigned flags;
	uint32_t qpn;
} unjoined[] = {
	{ 0, 9 },                                      /* it is for rdma_cm */
	{ FABRIC_ENDPOINT_DIRECT, UINT32_C(1) << 24 }, /* the fabric refuses it */
};

/* The session is there all the same, with room for as many channels as any. */
START_TEST(hello__that_cannot_join_brings_no_channel)
{
	const struct wire_welcome *welcome;

	stage_facts[1].kind = FABRIC_VERBS;
	stage_facts[1].flags = unjoined[_i].flags;
	client_init(&one);
	welcome = &client_ask(&one, hello_with(unjoined[_i].qpn), WIRE_TYPE_welcome)
			   ->welcome;
	ck_assert_uint_eq(welcome->channel, 0);
	ck_assert_uint_eq(welcome->qpn, 0);
	for (unsigned i = 0; i < 4; i++)
		(void)client_channel(&one, 0);
	client_fail(&one, message(WIRE_TYPE_open_channel), -EDQUOT);
}
END_TEST

static const struct {
	const char *peer, *gid;
	bool own;
} ends[] = {
	{ "192.0.2.1:4711", "::ffff:192.0.2.1", true },
	{ "192.0.2.1:4711", "::ffff:192.0.2.2", false },
	{ "192.0.2.1:4711", "::192.0.2.1", false },
	{ "[2001:db8::7]:4711", "2001:db8::7", true },
	{ "[2001:db8::7]:4711", "2001:db8::8", false },
	{ "[::ffff:192.0.2.1]:4711", "::ffff:192.0.2.1", true },
	{ "a socket of family 1", "::", false },
	{ "192.0.2.1:4711", "fe80::1", false },
};

START_TEST(channels__are_joined_as_the_clients_own_by_its_address)
{
	struct wire_msg *msg;
	uint32_t channel;

	stage_facts[1].flags = FABRIC_ENDPOINT_DIRECT;
	client_init(&one);
	(void)strcpy(one.connection.name, ends[_i].peer);
	(void)client_ask(&one, hello(), WIRE_TYPE_welcome);
	msg = message(WIRE_TYPE_open_channel);
	msg->open_channel.endpoint = 1;
	channel = client_ask(&one, msg, WIRE_TYPE_channel)->channel.channel;
	msg = join(channel, 9);
	ck_assert_int_eq(inet_pton(AF_INET6, ends[_i].gid, msg->join_channel.gid), 1);
	(void)client_ask(&one, msg, WIRE_TYPE_joined);
	ck_assert(fake_fabric_own == ends[_i].own);
}
END_TEST

/* rdma_cm would have told the client. */
START_TEST(channels__that_were_joined_are_told_when_they_end)
{
	struct session *session;
	struct wire_msg *msg;
	uint32_t channel;

	stage_facts[1].flags = FABRIC_ENDPOINT_DIRECT;
	client_open(&one);
	msg = message(WIRE_TYPE_open_channel);
	msg->open_channel.endpoint = 1;
	channel = client_ask(&one, msg, WIRE_TYPE_channel)->channel.channel;
	(void)client_ask(&one, join(channel, 9), WIRE_TYPE_joined);
	session = sessions_find(stage_control.sessions, one.session);
	session_channel_down(&session->ports[1], channel, "it broke");
	ck_assert_uint_eq(one.events, 1);
	ck_assert_int_eq((int)one.event.type, (int)WIRE_TYPE_channel_ended);
	ck_assert_uint_eq(one.event.channel_ended.channel, channel);
	/* the others are not */
	channel = client_channel(&one, 0);
	session_channel_down(&session->ports[0], channel, "it broke");
	ck_assert_uint_eq(one.events, 1);
}
END_TEST

/* rdma_cm's word may be lost with the channel, but not that of an orderly end. */
START_TEST(channels__that_broke_are_told)
{
	struct session *session;
	uint32_t channel;

	stage_facts[0].kind = FABRIC_VERBS;
	client_open(&one);
	session = sessions_find(stage_control.sessions, one.session);
	channel = client_channel(&one, 0);
	session_channel_down(&session->ports[0], channel, "");
	ck_assert_uint_eq(one.events, 0);
	channel = client_channel(&one, 0);
	session_channel_down(&session->ports[0], channel, "it broke");
	ck_assert_uint_eq(one.events, 1);
	ck_assert_int_eq((int)one.event.type, (int)WIRE_TYPE_channel_ended);
	ck_assert_uint_eq(one.event.channel_ended.channel, channel);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("session-channels");
	TCase *tc = tcase_create("channels");

	tcase_add_checked_fixture(tc, control_setup, control_teardown);
	tcase_add_test(tc, hello__brings_a_channel);
	tcase_add_loop_test(tc, hello__brings_no_channel, 0, 5);
	tcase_add_test(tc, hello__that_is_refused_brings_no_channel);
	tcase_add_test(tc, channels__are_admitted_once);
	tcase_add_test(tc, channels__have_a_limit);
	tcase_add_test(tc, hello__joins_its_channel);
	tcase_add_loop_test(tc, hello__that_cannot_join_brings_no_channel, 0, 2);
	tcase_add_test(tc, channels__are_joined_once);
	tcase_add_loop_test(tc, channels__are_joined_as_the_clients_own_by_its_address,
			    0, sizeof(ends) / sizeof(ends[0]));
	tcase_add_test(tc, channels__that_were_joined_are_told_when_they_end);
	tcase_add_test(tc, channels__that_broke_are_told);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
