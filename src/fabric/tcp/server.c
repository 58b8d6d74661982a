/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's table of functions.  Its descriptor is an epoll set of the acceptor's sockets and
 * the mailbox for events of the data threads. */
#include "fabric/tcp/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/notifications.h"
#include "fabric/tcp/session.h"
#include "fabric/tcp/session_mrs.h"
#include "fabric/tcp/session_streams.h"

#define EVENTS_MAX 32    /* handled by one call of process() */
#define MESSAGES_MAX 256 /* by one event */

static void server_hello(void *ctx, int fd, const struct fabric_hello *hello)
{
	struct fabric_server *server = ctx;
	struct fabric_hello asked = *hello;
	struct fabric_session *session;
	int err = server->events->admit(server->ctx, 0, &asked, &session);

	if (!err) {
		tcp_session_join(session, fd, hello->channel);
		return;
	}
	tcp_send_status(fd, wire_code_of(err), err_text());
	(void)close(fd);
	server->stats.refused++;
}

static void server_rejected(void *ctx)
{
	struct fabric_server *server = ctx;

	server->stats.refused++;
}

static void server_trouble(void *ctx, const char *text)
{
	struct fabric_server *server = ctx;

	server->events->endpoint_event(server->ctx, 0, text);
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
		mailbox_receive_some(&server->mailbox, &messages, 1);
		event = list_first(&messages, struct tcp_event, link);
		if (!event)
			return;
		list_remove(&event->link);
		event->handle(event);
	}
}

static void server_close(struct fabric_server *server)
{
	if (!server)
		return;
	/* before those that it gives streams to */
	if (server->handshakes)
		tcp_thread_stop(server->handshakes);
	for (unsigned i = 0; i < server->n_threads; i++)
		tcp_thread_stop(&server->threads[i]);
	tcp_acceptor_close(server->acceptor);
	list_for_each_entry_safe(struct fabric_session, session, &server->sessions,
				 link)
		tcp_session_free(session);
	tls_context_unref(server->tls);
	(void)close(server->epoll_fd);
	mailbox_destroy(&server->mailbox);
	free(server);
}

static int server_start_threads(struct fabric_server *server, unsigned n)
{
	struct tcp_thread *thread;
	char name[16];
	int err;

	for (; server->n_threads < n; server->n_threads++) {
		thread = &server->threads[server->n_threads];
		(void)snprintf(name, sizeof(name), "tcp-%u", server->n_threads);
		err = tcp_thread_start(thread, name, &server->mailbox);
		if (err)
			return err;
	}
	server->n_parts = n;
	if (!server->tls)
		return 0;
	server->n_parts++;
	thread = &server->threads[n];
	err = tcp_thread_start(thread, "tcp-tls", &server->mailbox);
	if (!err)
		server->handshakes = thread;
	return err;
}

/* Create a server that does not listen yet; server_close() frees it. */
static int server_new(unsigned threads, const struct fabric_server_events *events,
		      void *ctx, struct fabric_server **ret_server)
{
	struct fabric_server *server =
		calloc(1, sizeof(*server) + (threads + 1) * sizeof(server->threads[0]));
	int err;

	if (!server)
		return err_errno(-ENOMEM, "the tcp fabric");
	server->events = events;
	server->ctx = ctx;
	list_init(&server->sessions);
	list_init(&server->tenants);
	server->mail.ready = server_mail;
	err = mailbox_init(&server->mailbox);
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
	mailbox_destroy(&server->mailbox);
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
	err = tcp_source_watch(server->epoll_fd, mailbox_fd(&server->mailbox),
			       &server->mail);
	if (!err)
		err = tcp_acceptor_open(&params->listen, params->backlog,
					server->epoll_fd, &acceptor_events, server,
					&server->acceptor);
	if (!err && params->tls)
		err = tls_context_channels(true, &server->tls);
	if (!err)
		err = server_start_threads(server, params->threads);
	if (err) {
		server_close(server);
		return err;
	}
	server->endpoint = (struct fabric_endpoint){
		.kind = FABRIC_TCP,
		.flags = FABRIC_ENDPOINT_ATOMICS | FABRIC_ENDPOINT_INBAND |
			 (params->tls ? FABRIC_ENDPOINT_TLS : 0),
		.address = params->listen,
		.node = -1
	};
	server->endpoint.address.port = tcp_acceptor_port(server->acceptor);
	*ret_server = server;
	return 0;
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

static void traffic_add(struct fabric_traffic *sum, const struct tcp_traffic *traffic)
{
	sum->received_bytes += atomic_load(&traffic->received_bytes);
	sum->sent_bytes += atomic_load(&traffic->sent_bytes);
	sum->reads += atomic_load(&traffic->reads);
	sum->writes += atomic_load(&traffic->writes);
	sum->atomics += atomic_load(&traffic->atomics);
	sum->inband += atomic_load(&traffic->inband);
	sum->refused += atomic_load(&traffic->refused);
}

static void server_stats(const struct fabric_server *server, unsigned endpoint,
			 struct fabric_endpoint_stats *ret_stats)
{
	(void)endpoint;
	*ret_stats = server->stats;
	for (unsigned i = 0; i < server->n_threads; i++)
		traffic_add(&ret_stats->traffic, &server->threads[i].traffic);
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
	.session_open = tcp_session_open,
	.session_close = tcp_session_close,
	.session_extend = tcp_session_extend,
	.channel_close = tcp_session_channel_close,
	.reg_mr = tcp_mr_reg,
	.dereg_mr = tcp_mr_dereg,
	.mr_traffic = tcp_mr_traffic,
};
