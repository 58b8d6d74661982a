/* SPDX-License-Identifier: BSD-3-Clause */
/* The server: its table of functions, its sessions with their streams and memory regions, and
 * the order in which they end.  All of it runs on the loop's thread.  The server's descriptor is
 * an epoll set of the acceptor's sockets and the mailbox for events of the data threads. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/address.h"
#include "fabric/notifications.h"
#include "fabric/tcp/accept.h"
#include "fabric/tcp/conn.h"
#include "fabric/tcp/mr.h"
#include "fabric/tcp/thread.h"

#define EVENTS_MAX 32    /* handled by one call of process() */
#define MESSAGES_MAX 256 /* by one event */
/* Handshakes of TLS of one session that are under way; its other streams wait. */
#define HANDSHAKES_MAX 4

struct fabric_server {
	const struct fabric_server_events *events;
	void *ctx;
	struct fabric_endpoint endpoint;
	struct fabric_endpoint_stats stats;
	int epoll_fd;
	struct mailbox mailbox;
	struct tcp_source mail; /* the mailbox in the epoll set */
	struct tcp_acceptor *acceptor;
	struct tls_context *tls; /* of the streams; NULL: without TLS */
	struct list sessions;
	struct list tenants;
	unsigned n_threads;
	/* of the streams in the handshake of TLS: the one behind the data threads; NULL: without
	 * TLS */
	struct tcp_thread *handshakes;
	struct tcp_thread threads[];
};

/* The parts of a session, one for each thread. */
static unsigned server_parts(const struct fabric_server *server)
{
	return server->n_threads + (server->handshakes ? 1 : 0);
}

/* ---- tenants ---- */

struct tcp_tenant {
	struct list link;         /* server->tenants */
	const void *name;         /* from fabric_server_events.tenant; compared only */
	unsigned refs;            /* of its sessions */
	struct tcp_group ready[]; /* its sessions, in each thread */
};

/* NULL: no memory */
static struct tcp_tenant *tenant_get(struct fabric_server *server, const void *name)
{
	struct tcp_tenant *added;

	list_for_each_entry(struct tcp_tenant, tenant, &server->tenants, link) {
		if (tenant->name != name)
			continue;
		tenant->refs++;
		return tenant;
	}
	added = calloc(1,
		       sizeof(*added) + server_parts(server) * sizeof(added->ready[0]));
	if (!added)
		return NULL;
	added->name = name;
	added->refs = 1;
	for (unsigned i = 0; i < server_parts(server); i++)
		tcp_group_init(&added->ready[i], &server->threads[i].ready, false);
	list_append(&server->tenants, &added->link);
	return added;
}

static void tenant_put(struct tcp_tenant *tenant)
{
	if (--tenant->refs > 0)
		return;
	list_remove(&tenant->link);
	free(tenant);
}

/* ---- sessions ---- */

struct fabric_session {
	struct fabric_server *server;
	struct tcp_tenant *tenant;
	struct list link; /* server->sessions */
	void *cookie;
	bool closing;
	unsigned n_closing; /* threads that have not been told so yet */
	struct tcp_event closed;
	/* streams are served until this time; 0: closing.  The data threads read it */
	_Atomic uint64_t until_ns;
	struct list conns;
	struct list waiting; /* the commands of those that wait for their handshake */
	unsigned n_handshakes;
	struct list mrs;
	/* one per thread, which alone looks at its lists while they have members */
	struct tcp_part parts[];
};

static void conn_remove(struct tcp_conn *conn)
{
	struct fabric_server *server = conn->session->server;

	server->stats.channels--;
	server->threads[conn->thread].n_streams--;
	conn->home->n_streams--;
	if (conn->counted)
		server->stats.tls_kernel--;
	list_remove(&conn->in_session);
	tcp_conn_free(conn);
}

static void mr_remove(struct fabric_mr *mr)
{
	struct fabric_server *server = mr->session->server;

	server->stats.exposures--;
	server->stats.exposed_bytes -= mr->bytes;
	list_remove(&mr->link);
	tcp_mr_free(mr);
}

static void session_free(struct fabric_session *session)
{
	list_for_each_entry_safe(struct tcp_conn, conn, &session->conns, in_session)
		conn_remove(conn);
	list_for_each_entry_safe(struct fabric_mr, mr, &session->mrs, link)
		mr_remove(mr);
	tenant_put(session->tenant);
	list_remove(&session->link);
	free(session);
}

/* A session that is being closed ends when it has no streams and regions, and no thread has it. */
static void session_check_closed(struct fabric_session *session)
{
	if (session->closing && !session->n_closing && list_empty(&session->conns) &&
	    list_empty(&session->mrs))
		mailbox_post(&session->server->mailbox, &session->closed.link);
}

static void part_closed(struct tcp_event *event)
{
	struct fabric_session *session =
		container_of(event, struct tcp_part, closed)->session;

	session->n_closing--;
	session_check_closed(session);
}

static void session_closed(struct tcp_event *event)
{
	struct fabric_session *session =
		container_of(event, struct fabric_session, closed);
	struct fabric_server *server = session->server;
	void *cookie = session->cookie;

	session_free(session);
	server->events->session_closed(server->ctx, cookie);
}

static void part_init(struct fabric_session *session, unsigned thread)
{
	struct tcp_part *part = &session->parts[thread];

	part->session = session;
	part->command.kind = TCP_COMMAND_CLOSE;
	part->closed.handle = part_closed;
	list_init(&part->streams);
	tcp_group_init(&part->ready, &session->tenant->ready[thread], true);
}

static int session_open(struct fabric_server *server, unsigned endpoint, void *cookie,
			struct fabric_session **ret_session)
{
	struct fabric_session *session = calloc(
		1, sizeof(*session) + server_parts(server) * sizeof(session->parts[0]));
	/* without the event, each session is a tenant of its own */
	const void *tenant = session;

	(void)endpoint;
	if (!session)
		return err_errno(-ENOMEM, "a session");
	session->server = server;
	session->cookie = cookie;
	if (server->events->tenant)
		tenant = server->events->tenant(server->ctx, cookie);
	session->tenant = tenant_get(server, tenant);
	if (!session->tenant) {
		free(session);
		return err_errno(-ENOMEM, "a session");
	}
	session->closed.handle = session_closed;
	session->until_ns = UINT64_MAX;
	list_init(&session->conns);
	list_init(&session->waiting);
	list_init(&session->mrs);
	for (unsigned i = 0; i < server_parts(server); i++)
		part_init(session, i);
	list_append(&server->sessions, &session->link);
	*ret_session = session;
	return 0;
}

/* ---- the end of streams ---- */

/* No thread has it: send the event of its end. */
static void conn_drop_waiting(struct tcp_conn *conn)
{
	list_remove(&conn->command.link);
	conn->stage = TCP_STAGE_OVER;
	mailbox_post(&conn->session->server->mailbox, &conn->event.link);
}

/* By the server, without channel_down(). */
static bool conn_has_ended(const struct tcp_conn *conn)
{
	return conn->ended || conn->session->closing;
}

static void conn_kill(struct tcp_conn *conn)
{
	tcp_conn_kill(conn);
	if (conn->stage == TCP_STAGE_WAITS)
		conn_drop_waiting(conn);
}

static void conn_end(struct tcp_conn *conn)
{
	if (conn->ended)
		return;
	conn->ended = true;
	conn_kill(conn);
}

/* A thread that looks at a stream later would find the new limit, so overdue streams end before. */
static void session_extend(struct fabric_session *session, uint64_t until_ns)
{
	if (clock_now_ns() >= session->until_ns)
		list_for_each_entry(struct tcp_conn, conn, &session->conns, in_session)
			conn_kill(conn);
	session->until_ns = until_ns;
}

static int session_channel_close(struct fabric_session *session, uint32_t channel)
{
	list_for_each_entry(struct tcp_conn, conn, &session->conns, in_session) {
		if (conn->channel != channel)
			continue;
		conn_end(conn);
		tcp_conn_await_quiet(conn);
	}
	return 0;
}

/* ---- handshakes of TLS ---- */

static int conn_secure(struct tcp_conn *conn)
{
	struct fabric_session *session = conn->session;
	struct fabric_server *server = session->server;
	uint8_t key[FABRIC_TLS_KEY_BYTES];
	int err = server->events->channel_key(server->ctx, session->cookie,
					      conn->channel, key);

	conn->secure = false;
	if (!err)
		err = tls_pipe_open(conn->fd, server->tls, key, &conn->tls);
	explicit_bzero(key, sizeof(key));
	return err;
}

/* Answer the hello, upon which the handshake begins. */
static void conn_begin_handshake(struct tcp_conn *conn)
{
	struct fabric_session *session = conn->session;
	struct fabric_server *server = session->server;

	int err = conn_secure(conn);

	if (err) {
		(void)snprintf(conn->why, sizeof(conn->why), "%s", err_text());
		tcp_send_status(conn->fd, wire_code_of(err), conn->why);
		conn_drop_waiting(conn);
		return;
	}
	list_remove(&conn->command.link);
	conn->stage = TCP_STAGE_HANDSHAKE;
	conn->part = &session->parts[server->n_threads];
	session->n_handshakes++;
	/* if the peer is gone, the thread finds out */
	tcp_send_status(conn->fd, WIRE_CODE_none, "");
	mailbox_post(&server->handshakes->commands, &conn->command.link);
}

static void session_begin_handshakes(struct fabric_session *session)
{
	struct tcp_conn *conn;

	while (session->n_handshakes < HANDSHAKES_MAX &&
	       (conn = list_first(&session->waiting, struct tcp_conn, command.link)))
		conn_begin_handshake(conn);
}

/* ---- streams ---- */

static void conn_over_event(struct tcp_event *event)
{
	struct tcp_conn *conn = container_of(event, struct tcp_conn, event);
	struct fabric_session *session = conn->session;
	struct fabric_server *server = session->server;

	session->n_handshakes -= conn->stage == TCP_STAGE_HANDSHAKE;
	if (!conn_has_ended(conn)) {
		if (conn->why[0])
			server->stats.errors++;
		/* the callee may close the session; this connection keeps it alive */
		server->events->channel_down(server->ctx, session->cookie,
					     conn->channel, conn->why);
	}
	conn_remove(conn);
	session_begin_handshakes(session);
	session_check_closed(session);
}

/* The handshake of TLS is done. */
static void conn_up_event(struct tcp_event *event)
{
	struct tcp_conn *conn = container_of(event, struct tcp_conn, up_event);
	struct fabric_session *session = conn->session;
	struct fabric_server *server = session->server;

	session->n_handshakes--;
	conn->counted = conn->in_kernel;
	server->stats.tls_kernel += conn->counted;
	conn->stage = TCP_STAGE_SERVED;
	if (!conn_has_ended(conn))
		server->events->channel_up(server->ctx, session->cookie, conn->channel);
	session_begin_handshakes(session);
}

static void conn_refused_event(struct tcp_event *event)
{
	struct tcp_conn *conn = container_of(event, struct tcp_conn, refused_event);
	struct fabric_session *session = conn->session;
	const struct fabric_server *server = session->server;
	unsigned n = atomic_exchange(&conn->refused, 0);

	if (server->events->access_refused)
		server->events->access_refused(server->ctx, session->cookie, n);
}

/* 0, or -errno: the caller still owns the socket. */
static int conn_create(struct fabric_session *session, int fd, uint32_t channel,
		       struct tcp_conn **ret_conn)
{
	struct tcp_conn *conn;
	int err = tcp_conn_new(fd, session, channel, &session->until_ns, &conn);

	if (err)
		return err;
	conn->event.handle = conn_over_event;
	conn->up_event.handle = conn_up_event;
	conn->refused_event.handle = conn_refused_event;
	*ret_conn = conn;
	return 0;
}

/* The thread with the fewest streams of the session, and of those the one with the fewest in
 * all. */
static unsigned thread_choose(const struct fabric_session *session)
{
	const struct tcp_thread *threads = session->server->threads;
	const struct tcp_part *parts = session->parts;
	unsigned best = 0;

	for (unsigned i = 1; i < session->server->n_threads; i++)
		if (parts[i].n_streams < parts[best].n_streams ||
		    (parts[i].n_streams == parts[best].n_streams &&
		     threads[i].n_streams < threads[best].n_streams))
			best = i;
	return best;
}

/* A stream was admitted.  The session owns the socket.  It may have been closed on return, by
 * channel_up(). */
static void session_join(struct fabric_session *session, int fd, uint32_t channel)
{
	struct fabric_server *server = session->server;
	struct tcp_thread *thread;
	struct tcp_conn *conn;
	const char *why;

	if (session->closing) {
		why = "the session is being closed";
		tcp_send_status(fd, WIRE_CODE_busy, why);
		goto err_refused;
	}
	if (conn_create(session, fd, channel, &conn) != 0) {
		why = "no memory for the stream";
		tcp_send_status(fd, WIRE_CODE_no_memory, why);
		goto err_refused;
	}
	list_append(&session->conns, &conn->in_session);
	server->stats.channels++;
	server->stats.channels_ever++;
	conn->thread = thread_choose(session);
	thread = &server->threads[conn->thread];
	thread->n_streams++;
	conn->home = &session->parts[conn->thread];
	conn->home->n_streams++;
	conn->home_commands = &thread->commands;
	conn->table = &thread->table;
	conn->traffic = &thread->traffic;
	if (server->tls) {
		list_append(&session->waiting, &conn->command.link);
		session_begin_handshakes(session);
		return;
	}
	/* if the peer is gone, the thread finds out */
	tcp_send_status(fd, WIRE_CODE_none, "");
	conn->stage = TCP_STAGE_SERVED;
	conn->part = conn->home;
	mailbox_post(conn->home_commands, &conn->command.link);
	server->events->channel_up(server->ctx, session->cookie, channel);
	return;

err_refused:
	server->events->channel_down(server->ctx, session->cookie, channel, why);
	server->stats.refused++;
	(void)close(fd);
}

/* Its streams may be thousands, and to shut one down is a system call: their threads do that, as
 * work of the session. */
static void session_close(struct fabric_session *session)
{
	struct fabric_server *server = session->server;

	if (session->closing)
		return;
	session->closing = true;
	/* from here on no thread begins a request */
	session->until_ns = 0;
	list_for_each_entry_safe(struct tcp_conn, conn, &session->waiting, command.link)
		conn_drop_waiting(conn);
	if (!list_empty(&session->conns))
		session->n_closing = server_parts(server);
	for (unsigned i = 0; i < session->n_closing; i++)
		mailbox_post(&server->threads[i].commands,
			     &session->parts[i].command.link);
	session_check_closed(session);
}

/* ---- memory regions ---- */

static void mr_remove_keys(struct fabric_mr *mr, unsigned n)
{
	struct fabric_server *server = mr->session->server;

	while (n > 0) {
		n--;
		tcp_table_remove(&server->threads[n].table, &mr->entries[n]);
	}
}

static int mr_add_keys(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;
	struct fabric_server *server = session->server;

	for (unsigned i = 0; i < mr->n_entries; i++) {
		int err;

		mr->entries[i].streams = &session->parts[i].streams;
		err = tcp_table_add(&server->threads[i].table, &mr->entries[i]);
		if (!err)
			continue;
		mr_remove_keys(mr, i);
		return err;
	}
	return 0;
}

/* No stream uses the region. */
static void mr_deregistered(struct tcp_event *event)
{
	struct fabric_mr *mr = container_of(event, struct fabric_mr, event);
	struct fabric_session *session = mr->session;
	struct fabric_server *server = session->server;
	void *cookie = mr->cookie;

	mr_remove(mr);
	/* the callee may close the session, so this is the last use of it */
	session_check_closed(session);
	server->events->mr_deregistered(server->ctx, cookie);
}

/* The last notifications come before the event that ends the region. */
static void mr_notifications(struct tcp_event *event)
{
	struct fabric_mr *mr =
		container_of(event, struct fabric_mr, notifications_event);
	const struct fabric_server *server = mr->session->server;

	fabric_notifications_deliver(&mr->notifications, server->events, server->ctx,
				     mr->session->cookie, mr->cookie);
}

static int session_reg_mr(struct fabric_session *session, void *addr, size_t bytes,
			  unsigned rights, void *cookie, struct fabric_mr **ret_mr,
			  struct fabric_key *ret_key)
{
	struct fabric_server *server = session->server;
	struct fabric_mr *mr;
	int err;

	if (session->closing)
		return err_set(-ESHUTDOWN, "the session is being closed");
	if (bytes == 0 || (rights & ~(FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE)) != 0)
		return err_set(-EINVAL, "registering %zu bytes with rights %#x", bytes,
			       rights);
	err = tcp_mr_new(session, addr, bytes, rights, cookie, server->n_threads, &mr);
	if (err)
		return err;
	mr->event.handle = mr_deregistered;
	mr->notifications_event.handle = mr_notifications;
	mr->box = &server->mailbox;
	err = mr_add_keys(mr);
	if (err) {
		tcp_mr_free(mr);
		return err;
	}
	list_append(&session->mrs, &mr->link);
	server->stats.exposures++;
	server->stats.exposed_bytes += bytes;
	*ret_key = mr->key;
	*ret_mr = mr;
	return 0;
}

/* False: a stream may use the region. */
static bool mr_is_unused(struct fabric_mr *mr)
{
	bool unused = true;

	list_for_each_entry(struct tcp_conn, conn, &mr->session->conns, in_session) {
		bool ended = conn_has_ended(conn);

		/* a stream that has ended touches no memory once it is quiet */
		if (ended)
			conn->quiet = conn->quiet || tcp_conn_is_quiet(conn);
		if (ended ? !conn->quiet : !tcp_conn_try_release_mr(conn, mr))
			unused = false;
	}
	return unused;
}

/* True: no stream uses the region; false: an event will come. */
static bool mr_stop(struct fabric_mr *mr)
{
	struct fabric_server *server = mr->session->server;

	mr_remove_keys(mr, mr->n_entries);
	if (mr_is_unused(mr))
		return true;
	atomic_store(&mr->pending, mr->n_entries);
	for (unsigned i = 0; i < mr->n_entries; i++) {
		mr->entries[i].command.kind = TCP_COMMAND_DEREG_MR;
		mailbox_post(&server->threads[i].commands,
			     &mr->entries[i].command.link);
	}
	return false;
}

static bool mr_dereg(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;

	if (!mr_stop(mr))
		return false;
	/* pending notifications are delivered first */
	if (fabric_notifications_pending(&mr->notifications)) {
		mailbox_post(&session->server->mailbox, &mr->event.link);
		return false;
	}
	mr_remove(mr);
	session_check_closed(session);
	return true;
}

/* ---- the server ---- */

static void server_hello(void *ctx, int fd, const struct fabric_hello *hello)
{
	struct fabric_server *server = ctx;
	struct fabric_hello asked = *hello;
	struct fabric_session *session;
	int err = server->events->admit(server->ctx, 0, &asked, &session);

	if (!err) {
		session_join(session, fd, hello->channel);
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
		session_free(session);
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
	if (!server->tls)
		return 0;
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
	.session_open = session_open,
	.session_close = session_close,
	.session_extend = session_extend,
	.channel_close = session_channel_close,
	.reg_mr_now = session_reg_mr,
	.dereg_mr_now = mr_dereg,
	.mr_traffic = tcp_mr_traffic,
};
