/* SPDX-License-Identifier: BSD-3-Clause */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fabric-conformance-cases.h"
#include "fabric-conformance-stage.h"
#include "fabric-conformance-traffic.h"

START_TEST(connect__needs_session_and_token)
{
	struct party *party = party_new();
	struct fabric_channel *channel = NULL;
	struct fabric_hello hello = party_hello(party);
	struct fabric_endpoint_stats stats;

	hello.token[FABRIC_TOKEN_BYTES - 1] ^= 1;
	ck_assert_int_eq(party_try_connect(party, &hello, &channel), -EACCES);
	hello.token[FABRIC_TOKEN_BYTES - 1] ^= 1;
	hello.session++;
	ck_assert_int_eq(party_try_connect(party, &hello, &channel), -EACCES);
	ck_assert_ptr_null(channel);
	stats = stage_stats();
	/* a direct channel is refused before it reaches the fabric */
	ck_assert_uint_eq(stats.refused, stage_setting.direct ? 0 : 2);
	ck_assert_uint_eq(stats.channels_ever, 0);
	hello.session--;
	ck_assert_int_eq(party_try_connect(party, &hello, &channel), 0);
	party_await_ups(party, 1);
	ck_assert_uint_eq(stage_stats().channels, 1);
	channel_free(channel);
	party_await_downs(party, 1);
	ck_assert_uint_eq(stage_stats().channels, 0);
	ck_assert_uint_eq(party->ups, 1);
	party_free(party);
}
END_TEST

START_TEST(connect__is_refused_once_the_session_is_closed)
{
	struct party *party = party_new();
	struct fabric_channel *channel = NULL;
	struct fabric_hello hello = party_hello(party);

	party_close_session(party);
	party_await_closed(party);
	ck_assert_int_eq(party_try_connect(party, &hello, &channel), -EACCES);
	party_free(party);
}
END_TEST

/* Post n operations, or the number that is taken; returns that number. */
static unsigned post_many(struct fabric_channel *channel, const struct local *local,
			  const struct remote *remote, unsigned n, uint32_t bytes)
{
	unsigned posted = 0;

	while (posted < n) {
		struct wr wr = op_make(posted % 2 ? FABRIC_READ : FABRIC_WRITE, local,
				       posted * (size_t)bytes, remote, 0, bytes);

		wr.cookie = posted;
		if (wr_post(CLIENT, channel, &wr, 1) != 1)
			break;
		posted++;
	}
	return posted;
}

/* Each of n operations completes once; returns the number of errors. */
static unsigned await_each(struct party *party, unsigned n)
{
	bool *seen = calloc(n, sizeof(*seen));
	struct wc more;
	unsigned failed = 0;

	ck_assert_ptr_nonnull(seen);
	for (unsigned i = 0; i < n; i++) {
		struct wc wc = op_await(party);

		ck_assert_uint_lt(wc.cookie, n);
		ck_assert(!seen[wc.cookie]);
		seen[wc.cookie] = true;
		failed += wc.status != 0;
		ck_assert(wc.status == 0 || wc.text != NULL);
	}
	ck_assert_int_eq(wr_poll(CLIENT, party->cq, &more, 1), 0);
	free(seen);
	return failed;
}

static void *abort_main(void *arg)
{
	CLIENT->abort(arg);
	return NULL;
}

START_TEST(abort__completes_everything_once)
{
	enum { BYTES = 65536 };
	struct scene s = scene_open(BYTES, RW, STAGE_DEPTH * BYTES);
	unsigned posted = post_many(s.channel, s.local, s.remote, STAGE_DEPTH, BYTES);
	struct wr wr = scene_op(&s, FABRIC_READ, 0, 0, 8);
	pthread_t other;

	ck_assert_uint_eq(posted, STAGE_DEPTH);
	ck_assert_int_eq(pthread_create(&other, NULL, abort_main, s.channel), 0);
	ck_assert_int_eq(pthread_join(other, NULL), 0);
	(void)await_each(s.party, posted);
	ck_assert_int_eq(wr_post(CLIENT, s.channel, &wr, 1), -ECONNRESET);
	ck_assert(!CLIENT->alive(s.channel));
	/* a second call has no effect */
	CLIENT->abort(s.channel);
	channel_free(s.channel);
	party_await_downs(s.party, 1);
	/* the session still exists */
	s.channel = party_connect(s.party, STAGE_DEPTH);
	ck_assert_int_eq(scene_run(&s, wr), 0);
	scene_close(&s);
}
END_TEST

/* Sleep until alive() is false. */
static void await_closed(struct party *party, struct fabric_channel *channel)
{
	struct pollfd pfds[2] = {
		{ .fd = CLIENT->cq_fd(party->cq), .events = POLLIN },
		{ .fd = CLIENT->alive_fd(channel), .events = POLLIN },
	};
	struct wc wc;

	for (;;) {
		ck_assert_int_eq(CLIENT->cq_arm(party->cq), 0);
		ck_assert_int_eq(wr_poll(CLIENT, party->cq, &wc, 1), 0);
		if (!CLIENT->alive(channel))
			return;
		ck_assert_msg(poll(pfds, 2, STAGE_WAIT_MS) >= 1,
			      "the descriptors do not become readable");
	}
}

START_TEST(server_close__is_noticed_on_an_idle_channel)
{
	struct scene s = scene_open(4096, RW, 4096);
	struct wr wr = scene_op(&s, FABRIC_READ, 0, 0, 8);

	ck_assert_int_eq(scene_run(&s, wr), 0);
	ck_assert(CLIENT->alive(s.channel));
	stage_server_close();
	await_closed(s.party, s.channel);
	ck_assert_int_eq(wr_post(CLIENT, s.channel, &wr, 1), -ECONNRESET);
	scene_close(&s);
}
END_TEST

START_TEST(server_close__during_traffic_ends_every_operation)
{
	struct traffic t = { 0 };

	traffic_start(&t, 65536);
	traffic_await(&t, 20);
	stage_server_close();
	traffic_join(&t);
	ck_assert_int_ne(t.status, 0);
	traffic_free(&t);
}
END_TEST

struct channel_close_call {
	struct party *party;
	uint32_t channel;
};

static void call_channel_close(void *arg)
{
	struct channel_close_call *call = arg;

	SERVER->channel_close(call->party->session, call->channel);
	/* an unknown number */
	SERVER->channel_close(call->party->session, 77777);
}

START_TEST(channel_close__ends_one_channel_without_an_event)
{
	enum { BYTES = 65536 };
	struct party *party = party_new();
	struct fabric_channel *ends = party_connect(party, STAGE_DEPTH);
	struct channel_close_call call = { party, party->next_channel };
	struct fabric_channel *stays = party_connect(party, STAGE_DEPTH);
	struct remote *remote = remote_new(party, BYTES, RW);
	struct local *local = local_new(party, STAGE_DEPTH * BYTES);
	struct wr read = op_make(FABRIC_READ, local, 0, remote, 0, 8);
	char *before;
	unsigned posted = post_many(ends, local, remote, STAGE_DEPTH, BYTES);

	stage_call(call_channel_close, &call);
	/* on return no operation of the channel is executed any more */
	memset(remote->addr, POISON, remote->bytes);
	before = remote_snapshot(remote);
	(void)await_each(party, posted);
	ck_assert(remote_unchanged(remote, before));
	/* without rdma_cm the client learns of it only by an operation that fails */
	if (!stage_setting.direct)
		await_closed(party, ends);
	else if (CLIENT->alive(ends))
		ck_assert_int_ne(op_run(party, ends, read), 0);
	ck_assert_int_eq(op_run(party, stays, read), 0);
	channel_free(ends);
	channel_free(stays);
	party_await_downs(party, stage_setting.direct ? 2 : 1);
	ck_assert_uint_eq(party->downs, stage_setting.direct ? 2 : 1);
	free(before);
	local_free(local);
	remote_free(remote);
	party_free(party);
}
END_TEST

/* The server may not know yet that the channel is connected. */
START_TEST(channel_close__is_noticed_however_soon)
{
	struct party *party = party_new();
	struct channel_close_call call = { .party = party };

	for (unsigned i = 0; i < 20; i++) {
		struct fabric_channel *channel = party_connect(party, STAGE_DEPTH);

		call.channel = party->next_channel;
		stage_call(call_channel_close, &call);
		/* without rdma_cm an idle client does not learn of it */
		if (!stage_setting.direct)
			await_closed(party, channel);
		channel_free(channel);
	}
	party_free(party);
}
END_TEST

void channel_cases(TCase *tcase)
{
	tcase_add_test(tcase, connect__needs_session_and_token);
	tcase_add_test(tcase, connect__is_refused_once_the_session_is_closed);
	tcase_add_test(tcase, abort__completes_everything_once);
	tcase_add_test(tcase, server_close__is_noticed_on_an_idle_channel);
	tcase_add_test(tcase, server_close__during_traffic_ends_every_operation);
	tcase_add_test(tcase, channel_close__ends_one_channel_without_an_event);
	tcase_add_test(tcase, channel_close__is_noticed_however_soon);
}
