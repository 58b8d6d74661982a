/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/fabric/verbs/verbs-server-stage.h"

#include <check.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"

#define WAIT_MS 10000

struct seen seen;

static struct fabric_session *on_admit(void *ctx, unsigned endpoint,
				       const struct fabric_hello *hello)
{
	(void)ctx;
	(void)endpoint;
	seen.admits++;
	return hello->session == 1 ? seen.admitted : NULL;
}

static void on_channel_up(void *ctx, void *cookie, uint32_t channel)
{
	(void)ctx;
	(void)cookie;
	seen.ups++;
	seen.channel = channel;
}

static void on_channel_down(void *ctx, void *cookie, uint32_t channel, const char *why)
{
	(void)ctx;
	(void)cookie;
	seen.downs++;
	seen.channel = channel;
	(void)snprintf(seen.why, sizeof(seen.why), "%s", why);
}

static void on_exposed(void *ctx, void *cookie, int err, const char *text,
		       const struct fabric_key *key)
{
	(void)ctx;
	(void)cookie;
	seen.exposeds++;
	seen.err = err;
	(void)snprintf(seen.text, sizeof(seen.text), "%s", text);
	if (!err)
		seen.key = *key;
}

static void on_withdrawn(void *ctx, void *cookie)
{
	(void)ctx;
	(void)cookie;
	ck_assert_uint_eq(seen.closeds, 0);
	seen.withdrawns++;
}

static void on_session_closed(void *ctx, void *cookie)
{
	(void)ctx;
	(void)cookie;
	seen.closeds++;
}

static void on_endpoint_gone(void *ctx, unsigned endpoint)
{
	(void)ctx;
	seen.gones++;
	seen.gone_endpoint = endpoint;
}

static void on_endpoint_news(void *ctx, unsigned endpoint, const char *text)
{
	(void)ctx;
	seen.news++;
	seen.news_endpoint = endpoint;
	(void)snprintf(seen.news_text, sizeof(seen.news_text), "%s", text);
}

static void on_notified(void *ctx, void *session_cookie, void *cookie, uint32_t value,
			uint32_t lost)
{
	uint64_t until_ms = clock_now_ms() + seen.note_ms;

	(void)ctx;
	(void)session_cookie;
	(void)cookie;
	while (clock_now_ms() < until_ms)
		(void)sched_yield();
	seen.notifieds++;
	seen.note = value;
	seen.lost = lost;
}

static const struct fabric_server_events events = {
	.admit = on_admit,
	.channel_up = on_channel_up,
	.channel_down = on_channel_down,
	.mr_registered = on_exposed,
	.mr_deregistered = on_withdrawn,
	.session_closed = on_session_closed,
	.device_removed = on_endpoint_gone,
	.endpoint_event = on_endpoint_news,
	.notified = on_notified,
};

struct fabric_server *server;
char memory[4096];

int open_with(struct fabric_server_params params)
{
	if (!params.listen.port)
		params.listen.port = PORT;
	params.backlog = 3;
	return SERVER->open(&params, &events, NULL, &server);
}

int open_plain(void)
{
	return open_with((struct fabric_server_params){ 0 });
}

void await_readable(void)
{
	struct pollfd fd = { .fd = SERVER->fd(server), .events = POLLIN };

	ck_assert_int_eq(poll(&fd, 1, WAIT_MS), 1);
}

void await(const unsigned *counter, unsigned value)
{
	while (*counter < value) {
		await_readable();
		SERVER->process(server);
	}
	ck_assert_uint_eq(*counter, value);
}

struct fabric_session *session_new(unsigned endpoint)
{
	struct fabric_session *session = NULL;
	int err = SERVER->session_open(server, endpoint, NULL, &session);

	ck_assert_msg(!err, "session_open: %s", err_text());
	return session;
}

struct rdma_cm_id *request(uint64_t session, uint32_t channel)
{
	struct fabric_hello hello = { .session = session, .channel = channel };
	uint8_t buf[FABRIC_HELLO_BYTES];
	struct rdma_cm_id *id;

	fabric_hello_encode(&hello, buf);
	id = fake_request(0, buf, sizeof(buf));
	SERVER->process(server);
	return id;
}

struct rdma_cm_id *channel_new(struct fabric_session *session, uint32_t channel)
{
	struct rdma_cm_id *id;
	unsigned ups = seen.ups;

	seen.admitted = session;
	id = request(1, channel);
	ck_assert_int_eq(fake_fate(id), FAKE_ACCEPTED);
	fake_event(id, RDMA_CM_EVENT_ESTABLISHED);
	SERVER->process(server);
	ck_assert_uint_eq(seen.ups, ups + 1);
	return id;
}

struct fabric_mr *exposure_new(struct fabric_session *session)
{
	struct fabric_mr *exposure = NULL;
	unsigned exposeds = seen.exposeds;

	ck_assert_int_eq(SERVER->reg_mr(session, memory, sizeof(memory),
					FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE, NULL,
					&exposure),
			 0);
	await(&seen.exposeds, exposeds + 1);
	ck_assert_int_eq(seen.err, 0);
	return exposure;
}

struct fabric_endpoint_stats stats(void)
{
	struct fabric_endpoint_stats now;

	SERVER->stats(server, 0, &now);
	return now;
}

void close_all(void)
{
	SERVER->close(server);
	ck_assert_uint_eq(fake_live(), 0);
}
