/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions open, are fenced, resumed and ended; channels are admitted by token. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "control-stage.h"
#include "rmemd/control/table.h"
#include "unit.h"

static struct client one, two;

static struct wire_msg *resume(const struct client *client)
{
	struct wire_msg *msg = hello();

	msg->hello.resume = client->session;
	memcpy(msg->hello.token, client->token, WIRE_TOKEN_BYTES);
	return msg;
}

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
	welcome = &client_ask(&two, resume(&one), WIRE_TYPE_welcome)->welcome;
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
	client_fail(&two, resume(&one), -ESTALE);
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
	client_send(&two, resume(&one));
	ck_assert_uint_eq(two.answers, 0);
	ck_assert(two.peer.greeting);
	/* its grace does not end while it waits */
	pass(STAGE_GRACE_MS);
	ck_assert_uint_eq(sessions_in("fenced"), 1);
	fake_fabric_settle();
	ck_assert_uint_eq(two.answers, 1);
	ck_assert_uint_eq(two.greeted, 1);
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
	(void)client_ask(&two, resume(&one), WIRE_TYPE_welcome);
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
	msg = resume(&one);
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
	client_send(&two, resume(&one));
	if (_i) {
		client_lose(&two);
		fake_fabric_settle();
		ck_assert_uint_eq(sessions_in("fenced"), 1);
	}
	client_init(&three);
	client_send(&three, resume(&one));
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
	client_send(&two, resume(&one));
	peer_close(&two.peer);
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
	(void)strcpy(one.peer.name, ends[_i].peer);
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
	tcase_add_test(tc, hello__brings_a_channel);
	tcase_add_loop_test(tc, hello__brings_no_channel, 0, 5);
	tcase_add_test(tc, hello__that_is_refused_brings_no_channel);
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
	tcase_add_test(tc, channels__are_admitted_once);
	tcase_add_test(tc, channels__have_a_limit);
	tcase_add_test(tc, hello__joins_its_channel);
	tcase_add_loop_test(tc, hello__that_cannot_join_brings_no_channel, 0, 2);
	tcase_add_test(tc, channels__are_joined_once);
	tcase_add_loop_test(tc, channels__are_joined_as_the_clients_own_by_its_address,
			    0, sizeof(ends) / sizeof(ends[0]));
	tcase_add_test(tc, channels__that_were_joined_are_told_when_they_end);
	tcase_add_test(tc, channels__that_broke_are_told);
	tcase_add_test(tc, stop__tells_everybody);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
