/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/session_streams.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

/* Handshakes of TLS of one session that are under way; its other streams wait. */
#define HANDSHAKES_MAX 4

/* ---- the end of streams ---- */

void tcp_conn_remove(struct tcp_conn *conn)
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

/* No thread has it: send the event of its end. */
void tcp_conn_drop_waiting(struct tcp_conn *conn)
{
	list_remove(&conn->command.link);
	conn->stage = TCP_STAGE_OVER;
	mailbox_post(&conn->session->server->mailbox, &conn->event.link);
}

void tcp_conn_stop(struct tcp_conn *conn)
{
	tcp_conn_kill(conn);
	if (conn->stage == TCP_STAGE_WAITS)
		tcp_conn_drop_waiting(conn);
}

static void conn_end(struct tcp_conn *conn)
{
	if (conn->ended)
		return;
	conn->ended = true;
	tcp_conn_stop(conn);
}

int tcp_session_channel_close(struct fabric_session *session, uint32_t channel)
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
		tcp_conn_drop_waiting(conn);
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
	if (!tcp_conn_has_ended(conn)) {
		if (conn->why[0])
			server->stats.errors++;
		/* the callee may close the session; this connection keeps it alive */
		server->events->channel_down(server->ctx, session->cookie,
					     conn->channel, conn->why);
	}
	tcp_conn_remove(conn);
	session_begin_handshakes(session);
	tcp_session_check_closed(session);
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
	if (!tcp_conn_has_ended(conn))
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
void tcp_session_join(struct fabric_session *session, int fd, uint32_t channel)
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
