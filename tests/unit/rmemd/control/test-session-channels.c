/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels of sessions: admitted by token, joined without rdma_cm, and reported to the client when
 * they end. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "unit/rmemd/control-stage.h"
#include "rmemd/control/session.h"
#include "tls/admission.h"
#include "unit/unit.h"

static struct client one, two;

/* A hello that asks for a channel of a fabric. */
static struct wire_msg *hello_for(uint8_t fabric)
{
	struct wire_msg *msg = hello();

	msg->hello.channel = fabric;
	return msg;
}

/* The fabric reports that a channel of a session has ended. */
static void channel_down(const struct client *client, unsigned endpoint,
			 uint32_t channel, const char *why)
{
	struct session *session =
		sessions_find(stage_control.sessions, client->session);

	session_channel_down(NULL, &session->ports[endpoint], channel, why);
}

START_TEST(hello__opens_a_channel)
{
	const struct wire_welcome *welcome;
	uint32_t channel;

	stage_endpoint_info[1].kind = FABRIC_VERBS;
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
	/* the channel counts for the limit of the session */
	for (unsigned i = 1; i < 4; i++)
		ck_assert_uint_gt(client_channel(&one, 0), channel);
	client_fail(&one, message(WIRE_TYPE_open_channel), -EDQUOT);
	/* a resumed session gets none */
	client_lose(&one);
	client_resume(&two, &one);
	ck_assert_uint_eq(two.answer.welcome.channel, 0);
}
END_TEST

START_TEST(hello__opens_no_channel)
{
	static const uint8_t fabrics[] = { WIRE_FABRIC_AUTO, WIRE_FABRIC_VERBS,
					   WIRE_FABRIC_TCP };

	/* TCP is served, but its session cannot be opened */
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

/* A refused client causes no work in the fabric. */
START_TEST(refused_hello__opens_no_channel)
{
	static const uint8_t unknown[] = { WIRE_FABRIC_VERBS + 1, 255 };
	struct wire_msg *msg = hello_for(_i ? unknown[_i - 1] : WIRE_FABRIC_TCP);

	(void)strcpy(msg->hello.tenant, _i ? "default" : "defaul");
	client_init(&one);
	client_fail(&one, msg, _i ? -EINVAL : -EACCES);
	ck_assert_uint_eq(fake_fabric_sessions(), 0);
}
END_TEST

START_TEST(channels__are_admitted_once)
{
	struct fabric_session *session;
	struct fabric_hello asked;
	uint32_t channel;

	client_open(&one);
	client_open(&two);
	channel = client_open_channel(&one, 1);
	ck_assert(!client_admitted(&one, 0, channel));
	ck_assert(!client_admitted(&one, 1, channel + 1));
	ck_assert(!client_admitted(&one, 1, 0));
	ck_assert(!client_admitted(&two, 1, channel));
	asked = (struct fabric_hello){ .session = one.session,
				       .channel = channel,
				       .peer = stage_address };
	admission_token(one.secret, asked.session, channel, asked.token);
	asked.token[15] ^= 0x80;
	ck_assert_int_eq(sessions_admit(stage_control.sessions, 1, &asked, &session),
			 -EACCES);
	asked.session = 12345;
	ck_assert_int_eq(sessions_admit(stage_control.sessions, 1, &asked, &session),
			 -EACCES);
	ck_assert(client_admitted(&one, 1, channel));
	ck_assert(!client_admitted(&one, 1, channel));
	ck_assert_uint_eq(stage_control.counters.channels_refused, 7);
	ck_assert_uint_eq(stage_control.counters.refused[REFUSAL_CHANNEL_TOKEN], 2);
	ck_assert_uint_eq(stage_control.counters.refused[REFUSAL_CHANNEL_NUMBER], 5);
}
END_TEST

/* What admits channels is the connection's, and nobody's once that is lost. */
START_TEST(channels__are_admitted_by_the_secret_of_the_connection)
{
	static const uint8_t none[WIRE_SECRET_BYTES];
	uint8_t old[WIRE_SECRET_BYTES];
	uint32_t channel;

	client_open(&one);
	memcpy(old, one.secret, sizeof(old));
	client_lose(&one);
	ck_assert_mem_eq(one.connection.secret, none, sizeof(none));
	ck_assert(!client_admitted(&one, 1, 1));
	memset(one.secret, 0, sizeof(one.secret));
	ck_assert(!client_admitted(&one, 1, 1));
	client_resume(&two, &one);
	ck_assert_mem_ne(two.secret, old, sizeof(old));
	channel = client_open_channel(&two, 1);
	memcpy(one.secret, old, sizeof(old));
	ck_assert(!client_admitted(&one, 1, channel));
	memset(one.secret, 0, sizeof(one.secret));
	memcpy(one.secret, one.token, sizeof(one.token));
	ck_assert(!client_admitted(&one, 1, channel));
	ck_assert_uint_eq(stage_control.counters.refused[REFUSAL_CHANNEL_TOKEN], 4);
	ck_assert(client_admitted(&two, 1, channel));
}
END_TEST

static const struct fabric_address origins[] = {
	{ .family = 0 },
	{ .family = 4, .bytes = { 192, 0, 2, 2 } },
	{ .family = 6, .bytes = { [10] = 0xff, [11] = 0xff, [12] = 192, 0, 2, 2 } },
	{ .family = 6, .bytes = { 0xfe, 0x80, [15] = 1 } },
};

/* Whether it is that of the control connection. */
static bool is_own(const struct fabric_address *peer)
{
	uint8_t gid[16], own[16];

	if (!peer->family)
		return false;
	fabric_address_to_gid(peer, gid);
	fabric_address_to_gid(&stage_address, own);
	return memcmp(gid, own, sizeof(gid)) == 0;
}

static bool admitted_from(const struct fabric_address *peer,
			  const struct fabric_address *named, uint32_t channel)
{
	struct fabric_hello asked = { .session = one.session,
				      .channel = channel,
				      .peer = *peer };
	struct fabric_session *session;
	uint8_t gid[16];
	bool admitted;

	admission_token(one.secret, asked.session, channel, asked.token);
	if (named) {
		fabric_address_to_gid(named, gid);
		admission_origin(one.secret, asked.session, channel, gid, asked.origin);
	}
	admitted = !sessions_admit(stage_control.sessions, 1, &asked, &session);
	/* only the control connection proves an address */
	ck_assert(asked.peer_verified == (admitted && !named && is_own(peer)));
	return admitted;
}

/* Without a name for it, only the address of the control connection is the client's. */
START_TEST(channels__come_from_the_client)
{
	const struct fabric_address *peer = &origins[_i];
	const struct fabric_address mapped = {
		.family = 6,
		.bytes = { [10] = 0xff, [11] = 0xff, [12] = 192, 0, 2, 1 },
	};
	uint32_t channel, other;

	client_open(&one);
	channel = client_open_channel(&one, 1);
	other = client_open_channel(&one, 1);
	ck_assert(!admitted_from(peer, NULL, channel));
	ck_assert(!admitted_from(peer, &stage_address, channel));
	ck_assert_uint_eq(stage_control.counters.refused[REFUSAL_CHANNEL_ADDRESS], 2);
	/* an address that is named, but not one that is not known */
	ck_assert(admitted_from(peer, peer, channel) == (peer->family != 0));
	ck_assert(admitted_from(&mapped, NULL, other));
}
END_TEST

/* Whether the refused client is told of the key that forbids it. */
static void check_refusal(bool key)
{
	ck_assert_ptr_nonnull(strstr(
		err_text(), "a channel from 192.0.2.2 of a client at 192.0.2.1"));
	ck_assert(!strstr(err_text(), "[tcp] check_address") == !key);
}

/* Over TCP a key decides, which a reload may change. */
START_TEST(channels__come_from_elsewhere_if_they_may)
{
	const struct fabric_address *peer = &origins[1];
	uint32_t channel;

	client_open(&one);
	channel = client_open_channel(&one, 1);
	stage_config.tcp_check_address = CONFIG_AUTO;
	ck_assert(!admitted_from(peer, NULL, channel));
	check_refusal(true);
	stage_endpoint_info[1].kind = FABRIC_VERBS;
	stage_config.tcp_check_address = CONFIG_NO;
	ck_assert(!admitted_from(peer, NULL, channel));
	check_refusal(false);
	stage_endpoint_info[1].kind = FABRIC_TCP;
	ck_assert(admitted_from(peer, NULL, channel));
	channel = client_open_channel(&one, 1);
	stage_config.tcp_check_address = CONFIG_AUTO;
	stage_config.tcp_tls = true;
	ck_assert(admitted_from(peer, NULL, channel));
	channel = client_open_channel(&one, 1);
	stage_config.tcp_check_address = CONFIG_YES;
	ck_assert(!admitted_from(peer, NULL, channel));
	check_refusal(true);
}
END_TEST

/* A name is of one channel. */
START_TEST(channels__are_named_one_by_one)
{
	struct fabric_session *session;
	struct fabric_hello asked = { .peer = origins[1] };
	uint8_t gid[16];
	uint32_t channel;

	client_open(&one);
	channel = client_open_channel(&one, 1);
	fabric_address_to_gid(&asked.peer, gid);
	asked.session = one.session;
	asked.channel = channel + 1;
	ck_assert_uint_eq(client_open_channel(&one, 1), asked.channel);
	admission_token(one.secret, asked.session, asked.channel, asked.token);
	admission_origin(one.secret, asked.session, channel, gid, asked.origin);
	ck_assert_int_eq(sessions_admit(stage_control.sessions, 1, &asked, &session),
			 -EACCES);
	ck_assert_uint_eq(stage_control.counters.refused[REFUSAL_CHANNEL_ADDRESS], 1);
}
END_TEST

/* Clients are told of the address that is advertised, and of the endpoint's own without one. */
START_TEST(channels__are_advertised)
{
	const struct fabric_address seen = { .family = 4,
					     .bytes = { 198, 51, 100, 1 },
					     .port = 17462 };
	const struct wire_endpoint *endpoints = two.answer.welcome.endpoints;

	stage_endpoint_info[0].address.port = stage_endpoint_info[1].address.port =
		7462;
	stage_control.endpoints.at[1].advertised = seen;
	client_open(&two);
	ck_assert_uint_eq(endpoints[0].port, 7462);
	ck_assert_uint_eq(endpoints[1].port, seen.port);
	ck_assert_uint_eq(endpoints[1].family, 4);
	ck_assert_mem_eq(endpoints[1].address, seen.bytes, sizeof(seen.bytes));
	(void)client_open_channel(&two, 1);
	ck_assert_uint_eq(two.answer.channel.port, seen.port);
	ck_assert_mem_eq(two.answer.channel.address, seen.bytes, sizeof(seen.bytes));
	(void)client_open_channel(&two, 0);
	ck_assert_uint_eq(two.answer.channel.port, 7462);
	/* of any address, the port alone */
	stage_control.endpoints.at[1].advertised =
		(struct fabric_address){ .port = 17462 };
	client_open(&one);
	ck_assert_uint_eq(one.answer.welcome.endpoints[1].family, 0);
	ck_assert_uint_eq(one.answer.welcome.endpoints[1].port, 17462);
}
END_TEST

START_TEST(channels__are_admitted_in_time)
{
	uint32_t channel, other;

	client_open(&one);
	channel = client_open_channel(&one, 1);
	for (unsigned i = 0; i < 29; i++) {
		stage_now_ms += 1000;
		client_ok(&one, message(WIRE_TYPE_ping));
	}
	other = client_open_channel(&one, 1);
	stage_now_ms += 1000;
	client_ok(&one, message(WIRE_TYPE_ping));
	ck_assert(!client_admitted(&one, 1, channel));
	ck_assert_uint_eq(stage_control.counters.refused[REFUSAL_CHANNEL_LATE], 1);
	ck_assert(client_admitted(&one, 1, other));
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
		(void)client_open_channel(&one, 0);
	client_fail(&one, message(WIRE_TYPE_open_channel), -EDQUOT);
	msg = message(WIRE_TYPE_close_channel);
	msg->close_channel.channel = first;
	client_ok(&one, msg);
	client_ok(&one, msg);
	msg->close_channel.channel = 77;
	client_fail(&one, msg, -EINVAL);
	ck_assert_uint_gt(client_channel(&one, 0), first + 3);
	/* channels that are not connected in time are closed */
	client_fail(&one, message(WIRE_TYPE_open_channel), -EDQUOT);
	for (unsigned i = 0; i < 30; i++) {
		stage_now_ms += 1000;
		client_ok(&one, message(WIRE_TYPE_ping));
	}
	(void)client_channel(&one, 0);
}
END_TEST

/* Where channels are under TLS, one that never came up has failed in its handshake. */
START_TEST(channels__without_tls_are_counted)
{
	uint32_t channel;

	stage_endpoint_info[0].flags = _i ? FABRIC_ENDPOINT_TLS : 0;
	client_open(&one);
	channel = client_open_channel(&one, 0);
	ck_assert(client_admitted(&one, 0, channel));
	channel_down(&one, 0, channel, "TLS: the client has another key");
	channel = client_channel(&one, 0);
	session_channel_up(
		NULL, &sessions_find(stage_control.sessions, one.session)->ports[0],
		channel);
	channel_down(&one, 0, channel, "the stream has ended");
	ck_assert_uint_eq(stage_control.counters.refused[REFUSAL_CHANNEL_TLS],
			  (uint64_t)_i);
	ck_assert_uint_eq(stage_control.counters.channels_refused, (uint64_t)_i);
}
END_TEST

/* Each channel of a session has a key of its own, which is not its token. */
START_TEST(channels__have_keys)
{
	uint8_t keys[2][FABRIC_TLS_KEY_BYTES], wanted[ADMISSION_KEY_BYTES];
	uint8_t token[ADMISSION_BYTES];
	struct session *session;

	client_open(&one);
	session = sessions_find(stage_control.sessions, one.session);
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_int_eq(
			session_channel_key(NULL, &session->ports[0], 7 + i, keys[i]),
			0);
	admission_key(one.secret, one.session, 7, wanted);
	admission_token(one.secret, one.session, 7, token);
	ck_assert_mem_eq(keys[0], wanted, sizeof(wanted));
	ck_assert_mem_ne(keys[0], keys[1], sizeof(wanted));
	ck_assert_mem_ne(keys[0], token, sizeof(token));
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

static int count_channels(const struct session *session, void *arg)
{
	*(unsigned *)arg = session->n_connected;
	return 1;
}

/* The number of connected channels of the first session. */
static unsigned connected_channels(void)
{
	unsigned n;

	ck_assert_int_eq(sessions_each(stage_control.sessions, 0, count_channels, &n),
			 1);
	return n;
}

START_TEST(channels__are_joined_once)
{
	const struct wire_joined *joined;
	uint32_t channel, other;

	stage_endpoint_info[1].flags = FABRIC_ENDPOINT_DIRECT;
	client_open(&one);
	client_open(&two);
	channel = client_open_channel(&one, 1);
	other = client_open_channel(&one, 0);
	/* a channel of another session, one that is not open, and one of rdma_cm */
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
	ck_assert_uint_eq(connected_channels(), 1);
	client_fail(&one, join(channel, 9), -EINVAL);
	/* a channel that the fabric refuses is closed and counted */
	other = client_open_channel(&one, 1);
	client_fail(&one, join(other, 1 << 24), -EINVAL);
	client_fail(&one, join(other, 9), -EINVAL);
	ck_assert_uint_eq(stage_control.counters.channels_refused, 1);
}
END_TEST

/* The fabric reports that a channel at endpoint 1 is connected, or is not. */
static void report_connected(const struct client *client, uint32_t channel, int err)
{
	const struct fabric_qp_info ours = { .qpn = 42 };
	struct session *session =
		sessions_find(stage_control.sessions, client->session);

	if (!err)
		session_channel_up(NULL, &session->ports[1], channel);
	session_channel_connected(NULL, &session->ports[1], channel, err,
				  err ? "nobody answers" : "", err ? NULL : &ours);
}

/* Other requests are answered while a channel is connected. */
START_TEST(join__is_answered_when_the_channel_is_connected)
{
	static const int errors[] = { 0,       -ETIMEDOUT, -EHOSTUNREACH, -EBUSY,
				      -EACCES, -ENODEV,    -EIO };
	uint32_t channel;
	uint64_t id;

	stage_endpoint_info[1].flags = FABRIC_ENDPOINT_DIRECT;
	fake_fabric_hold_connect = true;
	client_open(&one);
	channel = client_open_channel(&one, 1);
	client_send(&one, join(channel, 9));
	id = one.last_id;
	client_ok(&one, message(WIRE_TYPE_ping));
	ck_assert_uint_eq(connected_channels(), 0);
	report_connected(&one, channel, errors[_i]);
	ck_assert_uint_eq(one.answer.id, id);
	if (_i) {
		ck_assert_int_eq(one.answer.type, WIRE_TYPE_error);
		ck_assert_uint_eq(one.answer.error.code, wire_code_of(errors[_i]));
		ck_assert_str_eq(one.answer.error.text, "nobody answers");
		ck_assert_uint_eq(stage_control.counters.channels_refused, 1);
	} else {
		ck_assert_int_eq(one.answer.type, WIRE_TYPE_joined);
		ck_assert_uint_eq(one.answer.joined.qpn, 42);
	}
	ck_assert_uint_eq(connected_channels(), !_i);
	/* a channel that failed counts for no limit */
	for (unsigned i = !_i; i < 4; i++)
		(void)client_open_channel(&one, 0);
	client_fail(&one, message(WIRE_TYPE_open_channel), -EDQUOT);
}
END_TEST

START_TEST(join__of_a_channel_that_is_closed_fails)
{
	struct wire_msg *msg;
	uint32_t channel;
	unsigned answers;

	stage_endpoint_info[1].flags = FABRIC_ENDPOINT_DIRECT;
	fake_fabric_hold_connect = true;
	client_open(&one);
	channel = client_open_channel(&one, 1);
	client_send(&one, join(channel, 9));
	answers = one.answers;
	msg = message(WIRE_TYPE_close_channel);
	msg->close_channel.channel = channel;
	client_send(&one, msg);
	/* both requests are answered */
	ck_assert_uint_eq(one.answers, answers + 2);
	ck_assert_int_eq(one.answer.type, WIRE_TYPE_ok);
}
END_TEST

static const struct {
	const char *peer, *gid;
	bool own;
} addresses[] = {
	{ "192.0.2.1", "::ffff:192.0.2.1", true },
	{ "192.0.2.1", "::ffff:192.0.2.2", false },
	{ "192.0.2.1", "::192.0.2.1", false },
	{ "2001:db8::7", "2001:db8::7", true },
	{ "2001:db8::7", "2001:db8::8", false },
	{ "::ffff:192.0.2.1", "::ffff:192.0.2.1", true },
	/* not an address */
	{ "", "::", false },
	{ "192.0.2.1", "fe80::1", false },
};

/* As the kernel gives it, without a change of its family. */
static void set_peer(struct fabric_address *address, const char *text)
{
	memset(address, 0, sizeof(*address));
	if (*text)
		address->family = strchr(text, ':') ? 6 : 4;
	if (*text)
		ck_assert_int_eq(inet_pton(address->family == 6 ? AF_INET6 : AF_INET,
					   text, address->bytes),
				 1);
}

START_TEST(channels__belong_to_the_client_if_its_address_matches)
{
	struct wire_msg *msg;

	stage_endpoint_info[1].flags = FABRIC_ENDPOINT_DIRECT;
	client_init(&one);
	set_peer(&one.connection.address, addresses[_i].peer);
	(void)client_ask(&one, hello(), WIRE_TYPE_welcome);
	msg = join(client_open_channel(&one, 1), 9);
	ck_assert_int_eq(inet_pton(AF_INET6, addresses[_i].gid, msg->join_channel.gid),
			 1);
	(void)client_ask(&one, msg, WIRE_TYPE_joined);
	ck_assert(fake_fabric_gid_verified == addresses[_i].own);
}
END_TEST

/* The peer of a channel without rdma_cm gets no disconnect event. */
START_TEST(end__of_a_joined_channel_is_reported)
{
	uint32_t channel;

	stage_endpoint_info[1].flags = FABRIC_ENDPOINT_DIRECT;
	client_open(&one);
	channel = client_open_channel(&one, 1);
	(void)client_ask(&one, join(channel, 9), WIRE_TYPE_joined);
	channel_down(&one, 1, channel, "it broke");
	ck_assert_uint_eq(
		client_event(&one, 1, WIRE_TYPE_channel_ended)->channel_ended.channel,
		channel);
	/* the end of a TCP channel is not reported */
	channel_down(&one, 0, client_channel(&one, 0), "it broke");
	ck_assert_uint_eq(one.events, 1);
}
END_TEST

/* The disconnect event of rdma_cm may be lost with the channel, but not after an orderly end. */
START_TEST(end__of_a_broken_channel_is_reported)
{
	uint32_t channel;

	stage_endpoint_info[0].kind = FABRIC_VERBS;
	client_open(&one);
	channel_down(&one, 0, client_channel(&one, 0), "");
	ck_assert_uint_eq(one.events, 0);
	channel = client_channel(&one, 0);
	channel_down(&one, 0, channel, "it broke");
	ck_assert_uint_eq(
		client_event(&one, 1, WIRE_TYPE_channel_ended)->channel_ended.channel,
		channel);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("channels", control_setup, control_teardown);

	tcase_add_test(tc, hello__opens_a_channel);
	tcase_add_loop_test(tc, hello__opens_no_channel, 0, 3);
	tcase_add_loop_test(tc, refused_hello__opens_no_channel, 0, 3);
	tcase_add_test(tc, channels__are_admitted_once);
	tcase_add_test(tc, channels__are_admitted_by_the_secret_of_the_connection);
	tcase_add_loop_test(tc, channels__come_from_the_client, 0,
			    sizeof(origins) / sizeof(origins[0]));
	tcase_add_test(tc, channels__come_from_elsewhere_if_they_may);
	tcase_add_test(tc, channels__are_named_one_by_one);
	tcase_add_loop_test(tc, channels__without_tls_are_counted, 0, 2);
	tcase_add_test(tc, channels__have_keys);
	tcase_add_test(tc, channels__are_advertised);
	tcase_add_test(tc, channels__are_admitted_in_time);
	tcase_add_test(tc, channels__have_a_limit);
	tcase_add_test(tc, channels__are_joined_once);
	tcase_add_loop_test(tc, join__is_answered_when_the_channel_is_connected, 0, 7);
	tcase_add_test(tc, join__of_a_channel_that_is_closed_fails);
	tcase_add_loop_test(tc, channels__belong_to_the_client_if_its_address_matches,
			    0, sizeof(addresses) / sizeof(addresses[0]));
	tcase_add_test(tc, end__of_a_joined_channel_is_reported);
	tcase_add_test(tc, end__of_a_broken_channel_is_reported);
	return unit_main();
}
