/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's table of functions, all called by the loop.  Its descriptor is an epoll set of
 * the acceptor's sockets and the mailbox for events of the data threads. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/notifications.h"
#include "fabric/tcp/accept.h"
#include "fabric/tcp/session.h"

#define EVENTS_MAX 32    /* handled by one call of process() */
#define MESSAGES_MAX 256 /* by one event */

struct fabric_server {
	struct tcp_shared shared;
	struct fabric_endpoint endpoint;
	int epoll_fd;
	struct tcp_source mail;
	struct tcp_acceptor *acceptor;
	struct tcp_thread *threads[];
};

static void server_hello(void *ctx, int fd, const struct fabric_hello *hello)
{
	struct fabric_server *server = ctx;
	struct tcp_shared *shared = &server->shared;
	struct fabric_session *session = shared->events->admit(shared->ctx, 0, hello);

	if (session) {
		tcp_session_join(session, fd, hello->channel);
		return;
	}
	(void)tcp_send_status(fd, STREAM_REFUSED);
	(void)close(fd);
	shared->stats.refused++;
}

static void server_rejected(void *ctx)
{
	struct fabric_server *server = ctx;

	server->shared.stats.refused++;
}

static void server_trouble(void *ctx, const char *text)
{
	struct fabric_server *server = ctx;

	server->shared.events->endpoint_event(server->shared.ctx, 0, text);
}

static const struct tcp_acceptor_events acceptor_events = {
	.hello = server_hello,
	.rejected = server_rejected,
	.trouble = server_trouble,
};

/* Events that are left keep the descriptor readable. */
static void server_mail(struct tcp_source *source)
{
	struct fabric_server *server = container_of(source, struct fabric_server, mail);
	uint64_t until_ns = clock_now_ns() + FABRIC_NOTIFICATIONS_TURN_NS;
	struct tcp_event *event;
	struct list messages;

	list_init(&messages);
	for (unsigned i = 0; i < MESSAGES_MAX && clock_now_ns() < until_ns; i++) {
		mailbox_take_some(&server->shared.mailbox, &messages, 1);
		event = list_first(&messages, struct tcp_event, link);
		if (!event)
			return;
		list_remove(&event->link);
		tcp_session_handle_event(event);
	}
}

static bool address_is_any(const struct fabric_address *address)
{
	size_t bytes = address->family == 4 ? 4 : 16;

	for (size_t i = 0; i < bytes; i++)
		if (address->bytes[i])
			return false;
	return true;
}

static void server_close(struct fabric_server *server)
{
	if (!server)
		return;
	for (unsigned i = 0; i < server->shared.n_threads; i++)
		tcp_thread_stop(server->threads[i]);
	tcp_acceptor_close(server->acceptor);
	tcp_session_free_all(&server->shared);
	(void)close(server->epoll_fd);
	mailbox_destroy(&server->shared.mailbox);
	free(server);
}

static int server_start_threads(struct fabric_server *server, unsigned n)
{
	struct tcp_shared *shared = &server->shared;

	for (; shared->n_threads < n; shared->n_threads++) {
		int err = tcp_thread_start(shared->n_threads, &shared->mailbox,
					   &server->threads[shared->n_threads]);

		if (err)
			return err;
	}
	return 0;
}

/* Create a server that does not listen yet; server_close() frees it. */
static int server_new(unsigned threads, const struct fabric_server_events *events,
		      void *ctx, struct fabric_server **ret_server)
{
	struct fabric_server *server =
		calloc(1, sizeof(*server) + threads * sizeof(server->threads[0]));
	int err;

	if (!server)
		return err_errno(-ENOMEM, "the tcp fabric");
	server->shared.events = events;
	server->shared.ctx = ctx;
	server->shared.threads = server->threads;
	list_init(&server->shared.sessions);
	server->mail.ready = server_mail;
	err = mailbox_init(&server->shared.mailbox);
	if (err)
		goto err_free;
	server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (server->epoll_fd < 0) {
		err = err_errno(-errno, "epoll_create1");
		goto err_mailbox;
	}
	*ret_server = server;
	return 0;

err_mailbox:
	mailbox_destroy(&server->shared.mailbox);
err_free:
	free(server);
	return err;
}

static int server_open(const struct fabric_server_params *params,
		       const struct fabric_server_events *events, void *ctx,
		       struct fabric_server **ret_server)
{
	struct fabric_server *server = NULL;
	int err;

	if (params->threads == 0 || params->backlog == 0)
		return err_set(-EINVAL, "the tcp fabric needs a thread and a backlog");
	err = server_new(params->threads, events, ctx, &server);
	if (err)
		return err;
	err = tcp_source_watch(server->epoll_fd, mailbox_fd(&server->shared.mailbox),
			       &server->mail);
	if (err)
		goto err_close;
	err = tcp_acceptor_open(&params->listen, params->backlog, server->epoll_fd,
				&acceptor_events, server, &server->acceptor);
	if (err)
		goto err_close;
	err = server_start_threads(server, params->threads);
	if (err)
		goto err_close;
	server->endpoint = (struct fabric_endpoint){ .kind = FABRIC_TCP,
						     .flags = FABRIC_ENDPOINT_ATOMICS |
							      FABRIC_ENDPOINT_INBAND,
						     .address = params->listen,
						     .node = -1 };
	server->endpoint.address.port = tcp_acceptor_port(server->acceptor);
	/* clients cannot connect to a wildcard */
	if (address_is_any(&params->listen))
		server->endpoint.address.family = 0;
	*ret_server = server;
	return 0;

err_close:
	server_close(server);
	return err;
}

static int server_fd(const struct fabric_server *server)
{
	return server->epoll_fd;
}

static void server_process(struct fabric_server *server)
{
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(server->epoll_fd, events, EVENTS_MAX, 0);

	for (int i = 0; i < n; i++) {
		struct tcp_source *source = events[i].data.ptr;

		source->ready(source);
	}
}

static unsigned server_n_endpoints(const struct fabric_server *server)
{
	(void)server;
	return 1;
}

static const struct fabric_endpoint *server_endpoint(const struct fabric_server *server,
						     unsigned endpoint)
{
	(void)endpoint;
	return &server->endpoint;
}

static void server_stats(const struct fabric_server *server, unsigned endpoint,
			 struct fabric_endpoint_stats *ret_stats)
{
	(void)endpoint;
	*ret_stats = server->shared.stats;
}

static int server_session_open(struct fabric_server *server, unsigned endpoint,
			       void *cookie, struct fabric_session **ret_session)
{
	(void)endpoint;
	return tcp_session_open(&server->shared, cookie, ret_session);
}

const struct fabric_server_ops fabric_tcp_server = {
	.name = "tcp",
	.kind = FABRIC_TCP,
	.open = server_open,
	.close = server_close,
	.fd = server_fd,
	.process = server_process,
	.n_endpoints = server_n_endpoints,
	.endpoint = server_endpoint,
	.stats = server_stats,
	.session_open = server_session_open,
	.session_close = tcp_session_close,
	.channel_close = tcp_session_channel_close,
	.reg_mr = tcp_session_reg_mr,
	.dereg_mr = tcp_session_dereg_mr,
	.reg_mr_now = tcp_session_reg_mr_now,
	.dereg_mr_now = tcp_session_dereg_mr_now,
};
