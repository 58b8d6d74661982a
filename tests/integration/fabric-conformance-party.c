/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric-conformance-state.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/random.h"

static void call_session_open(void *arg)
{
	struct party *party = arg;
	int err = SERVER->session_open(stage.server, stage.endpoint, party,
				       &party->session);

	ck_assert_msg(err == 0, "session_open: %d: %s", err, err_text());
}

static void call_session_close(void *arg)
{
	struct party *party = arg;
	struct fabric_session *session = party->session;

	/* from now on stage_session() finds no session, so no channel is admitted */
	(void)pthread_mutex_lock(&stage.lock);
	party->session = NULL;
	(void)pthread_mutex_unlock(&stage.lock);
	SERVER->session_close(session);
}

struct party *party_new(void)
{
	struct party *party = calloc(1, sizeof(*party));
	struct fabric_endpoint endpoint = stage.endpoint_copy;
	int err;

	ck_assert_ptr_nonnull(party);
	party->id = random_u64();
	ck_assert_int_eq(random_bytes(party->token, sizeof(party->token)), 0);
	if (endpoint.address.family == 0) {
		uint16_t port = endpoint.address.port;

		endpoint.address = stage_setting.address;
		endpoint.address.port = port;
	}
	stage_call(call_session_open, party);
	(void)pthread_mutex_lock(&stage.lock);
	for (unsigned i = 0; i < PARTIES_MAX; i++) {
		if (!stage.parties[i]) {
			stage.parties[i] = party;
			break;
		}
	}
	(void)pthread_mutex_unlock(&stage.lock);
	err = CLIENT->domain_open(&endpoint, NULL, STAGE_WAIT_MS, &party->domain);
	ck_assert_msg(err == 0, "domain_open: %d: %s", err, err_text());
	err = CLIENT->cq_create(party->domain, 8 * STAGE_DEPTH, &party->cq);
	ck_assert_msg(err == 0, "cq_create: %d: %s", err, err_text());
	return party;
}

void party_close_session(struct party *party)
{
	stage_call(call_session_close, party);
}

static bool party_is_closed(void *arg)
{
	return ((const struct party *)arg)->closed;
}

void party_await_closed(struct party *party)
{
	stage_await("session_closed", party_is_closed, party);
}

struct events_wait {
	const struct party *party;
	unsigned ups, downs;
};

static bool events_have_come(void *arg)
{
	const struct events_wait *wanted = arg;

	return wanted->party->ups >= wanted->ups &&
	       wanted->party->downs >= wanted->downs;
}

void party_await_ups(struct party *party, unsigned ups)
{
	struct events_wait wanted = { .party = party, .ups = ups };

	stage_await("channel_up", events_have_come, &wanted);
}

void party_await_downs(struct party *party, unsigned downs)
{
	struct events_wait wanted = { .party = party, .downs = downs };

	stage_await("channel_down", events_have_come, &wanted);
}

void party_free(struct party *party)
{
	CLIENT->cq_free(party->cq);
	CLIENT->domain_close(party->domain);
	if (stage.server) {
		if (party->session)
			party_close_session(party);
		party_await_closed(party);
	}
	(void)pthread_mutex_lock(&stage.lock);
	for (unsigned i = 0; i < PARTIES_MAX; i++)
		if (stage.parties[i] == party)
			stage.parties[i] = NULL;
	(void)pthread_mutex_unlock(&stage.lock);
	free(party);
}

struct fabric_hello party_hello(struct party *party)
{
	struct fabric_hello hello = { .session = party->id,
				      .channel = ++party->next_channel };

	memcpy(hello.token, party->token, sizeof(hello.token));
	return hello;
}

/* ---- the control connection, for direct channels ---- */

struct join {
	const struct fabric_hello *hello;
	const struct fabric_qp_info *theirs;
	struct fabric_qp_info *ours;
	int err;
	bool done;
	struct join *next;
};

/* Those that wait for the server; under the lock. */
static struct join *joins;

void party_joined(const struct party *party, uint32_t channel, int err,
		  const struct fabric_qp_info *ours)
{
	for (struct join *join = joins; join; join = join->next) {
		if (join->hello->session != party->id ||
		    join->hello->channel != channel)
			continue;
		join->err = err;
		if (!err)
			*join->ours = *ours;
		join->done = true;
	}
}

static bool join_is_done(void *arg)
{
	return ((const struct join *)arg)->done;
}

static void join_remove(const struct join *join)
{
	struct join **at = &joins;

	while (*at != join)
		at = &(*at)->next;
	*at = join->next;
}

static void call_join(void *arg)
{
	struct join *join = arg;
	struct fabric_session *session;

	(void)pthread_mutex_lock(&stage.lock);
	session = stage_session(join->hello);
	join->next = joins;
	joins = join;
	(void)pthread_mutex_unlock(&stage.lock);
	join->err = session ? SERVER->channel_connect(session, join->hello->channel,
						      join->theirs)
			    : -EACCES;
	join->done = join->err;
}

static int exchange(void *ctx, const struct fabric_qp_info *ours, unsigned timeout_ms,
		    struct fabric_qp_info *ret_theirs)
{
	struct join join = { .hello = ctx, .theirs = ours, .ours = ret_theirs };

	(void)timeout_ms;
	stage_call(call_join, &join);
	stage_await("channel_connected", join_is_done, &join);
	(void)pthread_mutex_lock(&stage.lock);
	join_remove(&join);
	(void)pthread_mutex_unlock(&stage.lock);
	return join.err;
}

struct leave {
	struct party *party;
	uint32_t channel;
};

static void call_leave(void *arg)
{
	const struct leave *leave = arg;

	ck_assert_int_eq(SERVER->channel_close(leave->party->session, leave->channel),
			 0);
}

/* Close the server's end of a direct channel: the server does not notice that the client's end
 * was closed. */
static void party_leave(struct party *party, uint32_t channel)
{
	struct leave leave = { party, channel };

	if (!stage_setting.direct || channel == 0 || !stage.server || !party->session)
		return;
	stage_call(call_leave, &leave);
	(void)pthread_mutex_lock(&stage.lock);
	party->downs++;
	(void)pthread_mutex_unlock(&stage.lock);
}

void party_abort_ended(struct party *party, uint32_t channel)
{
	for (unsigned i = 0; i < PARTY_CHANNELS_MAX; i++) {
		if (!party->channels[i] || (channel && party->numbers[i] != channel))
			continue;
		party->numbers[i] = 0;
		CLIENT->abort(party->channels[i]);
	}
}

static int party_do_connect(struct party *party,
			    const struct fabric_channel_params *wanted,
			    struct fabric_channel **ret_channel)
{
	struct fabric_hello hello = wanted->hello;
	struct fabric_channel_params params = *wanted;
	unsigned i = 0;
	int err;

	stage_tls_key(hello.token, hello.channel, params.tls_key);
	params.exchange = exchange;
	params.exchange_ctx = &hello;
	err = wr_connect(CLIENT, party->cq, &params, ret_channel);
	if (err)
		return err;
	(void)pthread_mutex_lock(&stage.lock);
	while (i < PARTY_CHANNELS_MAX && party->channels[i])
		i++;
	ck_assert_uint_lt(i, PARTY_CHANNELS_MAX);
	party->channels[i] = *ret_channel;
	party->numbers[i] = hello.channel;
	(void)pthread_mutex_unlock(&stage.lock);
	return 0;
}

void channel_free(struct fabric_channel *channel)
{
	struct party *of = NULL;
	uint32_t number = 0;

	(void)pthread_mutex_lock(&stage.lock);
	for (unsigned i = 0; i < PARTIES_MAX * PARTY_CHANNELS_MAX; i++) {
		struct party *party = stage.parties[i / PARTY_CHANNELS_MAX];

		if (!party || party->channels[i % PARTY_CHANNELS_MAX] != channel)
			continue;
		of = party;
		party->channels[i % PARTY_CHANNELS_MAX] = NULL;
		number = party->numbers[i % PARTY_CHANNELS_MAX];
	}
	(void)pthread_mutex_unlock(&stage.lock);
	CLIENT->channel_free(channel);
	if (of)
		party_leave(of, number);
}

int party_try_connect(struct party *party, const struct fabric_hello *hello,
		      struct fabric_channel **ret_channel)
{
	struct fabric_channel_params params = { .hello = *hello,
						.depth = STAGE_DEPTH,
						.timeout_ms = STAGE_WAIT_MS };

	return party_do_connect(party, &params, ret_channel);
}

struct fabric_channel *party_connect(struct party *party, unsigned depth)
{
	struct fabric_channel_params params = { .hello = party_hello(party),
						.depth = depth,
						.timeout_ms = STAGE_WAIT_MS };
	struct fabric_channel *channel = NULL;
	int err = party_do_connect(party, &params, &channel);

	ck_assert_msg(err == 0, "connect: %d: %s", err, err_text());
	return channel;
}
