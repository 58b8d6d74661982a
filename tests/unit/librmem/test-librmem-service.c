/* SPDX-License-Identifier: BSD-3-Clause */
/* The service threads with many sessions, made by hand; the test is the server of each. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit/librmem/fake-fabric.h"
#include "librmem/queue/queue.h"
#include "librmem/channel/channel.h"
#include "librmem/session/service.h"
#include "librmem/session/session.h"
#include "unit/unit.h"
#include "wire/codec.h"

#define SESSIONS 12u
#define HEARTBEAT_MS 400u
#define FENCE_MS 1600u

static struct client {
	struct rmem session;
	struct rmem_queue *queue;
	int fd; /* the server's end */
	uint8_t in[WIRE_FRAME_MAX];
	size_t have;
	uint64_t ping_ms; /* the last one came */
} clients[SESSIONS];

static uint64_t gap_ms; /* the longest time between two heartbeats of a session */
static uint32_t next_channel;
static struct wire_msg request, reply;
static uint8_t out[WIRE_FRAME_MAX];

/* ---- the client's end ---- */

static void answered(void *ctx, uint64_t sent_ns)
{
	((struct rmem *)ctx)->alive_ns = sent_ns;
}

static int event(void *ctx, const struct wire_msg *msg)
{
	(void)ctx;
	(void)msg;
	return 0;
}

static const struct connection_events events = { answered, event };

static void descriptors_open(struct rmem *session)
{
	struct epoll_event in = { .events = EPOLLIN };

	session->epfd = epoll_create1(EPOLL_CLOEXEC);
	session->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	session->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	ck_assert_int_eq(epoll_ctl(session->epfd, EPOLL_CTL_ADD, session->wake_fd, &in),
			 0);
	ck_assert_int_eq(
		epoll_ctl(session->epfd, EPOLL_CTL_ADD, session->timer_fd, &in), 0);
}

static void client_open(struct client *client, uint64_t id)
{
	struct rmem *session = &client->session;
	struct rmem_queue_params params = RMEM_QUEUE_INIT;
	int fds[2];

	(void)pthread_mutex_init(&session->lock, NULL);
	(void)pthread_cond_init(&session->changed, NULL);
	list_init(&session->leases);
	map_init(&session->leases_by_id);
	list_init(&session->rekeys_ahead);
	list_init(&session->channels);
	list_init(&session->queues);
	list_init(&session->inflights);
	list_init(&session->service_node);
	list_init(&session->connect_node);
	session->observers = session_layers;
	session->uri.channels = 1;
	session->served = true;
	session->state = SESSION_UP;
	session->welcome.session = id;
	session->welcome.heartbeat_ms = HEARTBEAT_MS;
	session->welcome.fence_ms = FENCE_MS;
	session->welcome.n_endpoints = 1;
	session->welcome.endpoints[0].fabric = WIRE_FABRIC_TCP;
	session->peer.ss_family = AF_INET;
	session->alive_ns = clock_now_ns();
	descriptors_open(session);
	ck_assert_int_eq(connection_create(session->epfd, &events, session,
					   &session->connection),
			 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	ck_assert_int_eq(connection_adopt(session->connection, fds[0]), 0);
	connection_ready(session->connection);
	client->fd = fds[1];
	client->have = 0;
	client->ping_ms = clock_now_ms();
	ck_assert_int_eq(
		domain_set_open(session, &fabric_tcp_client, 1, 100, &session->domains),
		0);
	ck_assert_int_eq(queue_new(session, &params, &client->queue), 0);
	list_append(&session->queues, &client->queue->node);
	ck_assert_int_eq(service_add(session), 0);
}

/* Its only channel is dead. */
static void client_want(struct client *client)
{
	(void)pthread_mutex_lock(&client->session.lock);
	channel_want(&client->queue->channels.all[0], true);
	(void)pthread_mutex_unlock(&client->session.lock);
	session_wake(&client->session);
}

static void client_close(struct client *client)
{
	struct rmem *session = &client->session;

	service_remove(session);
	queue_drop(client->queue);
	domain_set_close(&session->domains);
	connection_free(session->connection);
	(void)close(client->fd);
	(void)close(session->timer_fd);
	(void)close(session->wake_fd);
	(void)close(session->epfd);
	(void)pthread_mutex_destroy(&session->lock);
	(void)pthread_cond_destroy(&session->changed);
}

/* ---- the server's end ---- */

static void handle(struct client *client)
{
	uint64_t now = clock_now_ms();
	int n;

	memset(&reply, 0, sizeof(reply));
	reply.id = request.id;
	reply.type = WIRE_TYPE_ok;
	if (request.type == WIRE_TYPE_ping) {
		if (now - client->ping_ms > gap_ms)
			gap_ms = now - client->ping_ms;
		client->ping_ms = now;
	} else if (request.type == WIRE_TYPE_open_channel) {
		reply.type = WIRE_TYPE_channel;
		reply.channel = (struct wire_channel){ .channel = ++next_channel };
	}
	n = wire_encode(&reply, out, sizeof(out));
	ck_assert_int_gt(n, 0);
	ck_assert_int_eq(send(client->fd, out, (size_t)n, MSG_NOSIGNAL), n);
}

static void client_hear(struct client *client)
{
	ssize_t n = recv(client->fd, client->in + client->have,
			 sizeof(client->in) - client->have, MSG_DONTWAIT);

	ck_assert_msg(n > 0, "a session has given up its server");
	client->have += (size_t)n;
	for (;;) {
		int bytes = wire_frame_bytes(client->in, client->have);

		if (bytes == 0 || (size_t)bytes > client->have)
			return;
		ck_assert_int_eq(wire_decode(client->in, (size_t)bytes, &request), 0);
		client->have -= (size_t)bytes;
		memmove(client->in, client->in + bytes, client->have);
		handle(client);
	}
}

/* Answer what comes until `until` holds. */
static void serve(bool (*until)(void))
{
	uint64_t end = clock_now_ms() + 30000;
	struct pollfd fds[SESSIONS];

	while (!until()) {
		ck_assert_uint_lt(clock_now_ms(), end);
		for (unsigned i = 0; i < SESSIONS; i++)
			fds[i] = (struct pollfd){ .fd = clients[i].fd,
						  .events = POLLIN };
		(void)poll(fds, SESSIONS, 10);
		for (unsigned i = 0; i < SESSIONS; i++)
			if (fds[i].revents)
				client_hear(&clients[i]);
	}
}

/* ---- tests ---- */

static bool tried_twice(void)
{
	for (unsigned i = 1; i < SESSIONS; i++)
		if (fake.tried[i] < 2)
			return false;
	return true;
}

static bool connected(struct client *client)
{
	bool fresh;

	(void)pthread_mutex_lock(&client->session.lock);
	fresh = client->queue->channels.all[0].stage == CHANNEL_FRESH;
	(void)pthread_mutex_unlock(&client->session.lock);
	return fresh;
}

static bool first_connected(void)
{
	return connected(&clients[1]);
}

static bool all_connected(void)
{
	for (unsigned i = 1; i < SESSIONS; i++)
		if (!connected(&clients[i]))
			return false;
	return true;
}

/* Sessions that cannot connect together take longer than the fence.  None of them is late, nor the one that needs nothing; and each has its turn. */
START_TEST(black_hole__costs_nobody_the_session)
{
	fake_reset();
	for (unsigned i = 0; i < SESSIONS; i++)
		client_open(&clients[i], i);
	fake.slow_ms = UINT_MAX;
	for (unsigned i = 1; i < SESSIONS; i++)
		client_want(&clients[i]);
	serve(tried_twice);
	ck_assert_uint_eq(fake.tried[0], 0);
	ck_assert_msg(gap_ms < FENCE_MS, "%u ms without a heartbeat", (unsigned)gap_ms);
	/* sessions come and go while others connect */
	client_close(&clients[0]);
	fake.slow_ms = 0;
	client_open(&clients[0], 0);
	serve(all_connected);
	for (unsigned i = 0; i < SESSIONS; i++)
		client_close(&clients[i]);
	ck_assert_int_eq(fake.live, 0);
}
END_TEST

/* It takes longer than a connect may at first. */
START_TEST(slow_server__is_reached_in_the_end)
{
	fake_reset();
	for (unsigned i = 0; i < SESSIONS; i++)
		client_open(&clients[i], i);
	fake.slow_ms = 1300;
	client_want(&clients[1]);
	serve(first_connected);
	ck_assert_uint_eq(fake.tried[1], 3);
	for (unsigned i = 0; i < SESSIONS; i++)
		client_close(&clients[i]);
	ck_assert_int_eq(fake.live, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-service");
	TCase *tc = tcase_create("service");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, black_hole__costs_nobody_the_session);
	tcase_add_test(tc, slow_server__is_reached_in_the_end);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
