/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/session.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "fabric/tcp/accept.h"

struct fabric_session {
	struct tcp_shared *shared;
	struct list link; /* shared->sessions */
	void *cookie;
	bool closing;
	struct tcp_event closed;
	struct list conns;
	struct list mrs;
	/* one list per data thread, which alone looks at it while it has streams or entries */
	struct list streams[];
};

int tcp_session_open(struct tcp_shared *shared, void *cookie,
		     struct fabric_session **ret_session)
{
	struct fabric_session *session = calloc(
		1, sizeof(*session) + shared->n_threads * sizeof(session->streams[0]));

	if (!session)
		return err_errno(-ENOMEM, "a session");
	session->shared = shared;
	session->cookie = cookie;
	session->closed.kind = TCP_EVENT_SESSION;
	list_init(&session->conns);
	list_init(&session->mrs);
	for (unsigned i = 0; i < shared->n_threads; i++)
		list_init(&session->streams[i]);
	list_append(&shared->sessions, &session->link);
	*ret_session = session;
	return 0;
}

static void conn_remove(struct tcp_conn *conn)
{
	conn->session->shared->stats.channels--;
	list_remove(&conn->in_session);
	tcp_conn_free(conn);
}

static void mr_remove(struct fabric_mr *mr)
{
	struct tcp_shared *shared = mr->session->shared;

	shared->stats.exposures--;
	shared->stats.exposed_bytes -= mr->bytes;
	list_remove(&mr->link);
	tcp_mr_free(mr);
}

static void session_free(struct fabric_session *session)
{
	list_for_each_safe(node, &session->conns)
		conn_remove(container_of(node, struct tcp_conn, in_session));
	list_for_each_safe(node, &session->mrs)
		mr_remove(container_of(node, struct fabric_mr, link));
	list_remove(&session->link);
	free(session);
}

void tcp_session_free_all(struct tcp_shared *shared)
{
	list_for_each_safe(node, &shared->sessions)
		session_free(container_of(node, struct fabric_session, link));
}

/* A session that is being closed ends when it has no streams and regions. */
static void session_check_closed(struct fabric_session *session)
{
	if (session->closing && list_empty(&session->conns) &&
	    list_empty(&session->mrs))
		mailbox_post(&session->shared->mailbox, &session->closed.link);
}

/* ---- streams ---- */

static void conn_end(struct tcp_conn *conn)
{
	if (conn->ended)
		return;
	conn->ended = true;
	tcp_conn_kill(conn);
}

void tcp_session_join(struct fabric_session *session, int fd, uint32_t channel)
{
	struct tcp_shared *shared = session->shared;
	struct tcp_conn *conn;

	if (session->closing) {
		(void)tcp_send_status(fd, STREAM_REFUSED);
		goto err_refused;
	}
	if (tcp_conn_new(fd, session, channel, &conn) != 0) {
		(void)tcp_send_status(fd, STREAM_BUSY);
		shared->events->channel_down(shared->ctx, session->cookie, channel,
					     "no memory for the stream");
		goto err_refused;
	}
	/* if the peer is gone, the thread finds out */
	(void)tcp_send_status(fd, STREAM_DONE);
	list_append(&session->conns, &conn->in_session);
	shared->stats.channels++;
	shared->stats.channels_ever++;
	shared->next_thread = (shared->next_thread + 1) % shared->n_threads;
	conn->streams = &session->streams[shared->next_thread];
	tcp_thread_command(shared->threads[shared->next_thread], &conn->command);
	shared->events->channel_up(shared->ctx, session->cookie, channel);
	return;

err_refused:
	shared->stats.refused++;
	(void)close(fd);
}

int tcp_session_channel_close(struct fabric_session *session, uint32_t channel)
{
	list_for_each(node, &session->conns) {
		struct tcp_conn *conn = container_of(node, struct tcp_conn, in_session);

		if (conn->channel == channel)
			conn_end(conn);
	}
	return 0;
}

static void conn_over_event(struct tcp_conn *conn)
{
	struct fabric_session *session = conn->session;
	struct tcp_shared *shared = session->shared;

	if (!conn->ended) {
		if (conn->why[0])
			shared->stats.errors++;
		/* the callee may close the session; this connection keeps it alive */
		shared->events->channel_down(shared->ctx, session->cookie,
					     conn->channel, conn->why);
	}
	conn_remove(conn);
	session_check_closed(session);
}

/* ---- memory regions ---- */

static void mr_remove_keys(struct fabric_mr *mr, unsigned n)
{
	struct tcp_shared *shared = mr->session->shared;

	while (n > 0) {
		n--;
		tcp_table_remove(tcp_thread_table(shared->threads[n]), &mr->entries[n]);
	}
}

static int mr_add_keys(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;
	struct tcp_shared *shared = session->shared;

	for (unsigned i = 0; i < mr->n_entries; i++) {
		int err;

		mr->entries[i].streams = &session->streams[i];
		err = tcp_table_add(tcp_thread_table(shared->threads[i]),
				    &mr->entries[i]);
		if (!err)
			continue;
		mr_remove_keys(mr, i);
		return err;
	}
	return 0;
}

int tcp_session_reg_mr_now(struct fabric_session *session, void *addr, size_t bytes,
			   unsigned rights, void *cookie, struct fabric_mr **ret_mr,
			   struct fabric_key *ret_key)
{
	struct tcp_shared *shared = session->shared;
	struct fabric_mr *mr;
	int err;

	if (session->closing)
		return err_set(-ESHUTDOWN, "the session is being closed");
	if (bytes == 0 || (rights & ~(FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE)) != 0)
		return err_set(-EINVAL, "registering %zu bytes with rights %#x", bytes,
			       rights);
	err = tcp_mr_new(session, addr, bytes, rights, cookie, shared->n_threads, &mr);
	if (err)
		return err;
	mr->box = &shared->mailbox;
	err = mr_add_keys(mr);
	if (err) {
		tcp_mr_free(mr);
		return err;
	}
	mr->state = TCP_MR_REGISTERED;
	list_append(&session->mrs, &mr->link);
	shared->stats.exposures++;
	shared->stats.exposed_bytes += bytes;
	*ret_key = mr->key;
	*ret_mr = mr;
	return 0;
}

int tcp_session_reg_mr(struct fabric_session *session, void *addr, size_t bytes,
		       unsigned rights, void *cookie, struct fabric_mr **ret_mr)
{
	struct fabric_key key;
	int err = tcp_session_reg_mr_now(session, addr, bytes, rights, cookie, ret_mr,
					 &key);

	if (err)
		return err;
	(*ret_mr)->state = TCP_MR_REGISTERING;
	mailbox_post(&session->shared->mailbox, &(*ret_mr)->event.link);
	return 0;
}

/* False: a stream may use the region. */
static bool mr_is_unused(struct fabric_mr *mr)
{
	bool deserted = true;

	list_for_each(node, &mr->session->conns) {
		struct tcp_conn *conn = container_of(node, struct tcp_conn, in_session);

		/* a stream that was killed touches no memory */
		if (!conn->ended && !tcp_conn_try_forget(conn, mr))
			deserted = false;
	}
	return deserted;
}

/* Remove the keys.  True: no stream uses the region; false: an event will come. */
static bool mr_stop(struct fabric_mr *mr)
{
	struct tcp_shared *shared = mr->session->shared;

	mr->state = TCP_MR_DEREGISTERING;
	mr_remove_keys(mr, mr->n_entries);
	if (mr_is_unused(mr))
		return true;
	atomic_store(&mr->pending, mr->n_entries);
	for (unsigned i = 0; i < mr->n_entries; i++) {
		mr->entries[i].command.kind = TCP_COMMAND_DEREG_MR;
		tcp_thread_command(shared->threads[i], &mr->entries[i].command);
	}
	return false;
}

/* As above, with an event in both cases. */
static void mr_stop_with_event(struct fabric_mr *mr)
{
	if (mr_stop(mr))
		mailbox_post(&mr->session->shared->mailbox, &mr->event.link);
}

void tcp_session_dereg_mr(struct fabric_mr *mr)
{
	mr->dereg_wanted = true;
	/* otherwise an event is under way, whose handler looks at dereg_wanted */
	if (mr->state == TCP_MR_REGISTERED)
		mr_stop_with_event(mr);
}

bool tcp_session_dereg_mr_now(struct fabric_mr *mr)
{
	if (mr->state != TCP_MR_REGISTERED) {
		tcp_session_dereg_mr(mr);
		return false;
	}
	mr->dereg_wanted = true;
	if (!mr_stop(mr))
		return false;
	/* pending notifications are delivered first */
	if (fabric_notifications_told(&mr->notifications)) {
		mailbox_post(&mr->session->shared->mailbox, &mr->event.link);
		return false;
	}
	mr_remove(mr);
	return true;
}

static void mr_registered(struct fabric_mr *mr)
{
	struct tcp_shared *shared = mr->session->shared;

	mr->state = TCP_MR_REGISTERED;
	if (mr->dereg_wanted)
		mr_stop_with_event(mr);
	else
		shared->events->mr_registered(shared->ctx, mr->cookie, 0, "", &mr->key);
}

/* No stream uses the region. */
static void mr_deregistered(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;
	struct tcp_shared *shared = session->shared;
	void *cookie = mr->cookie;

	mr_remove(mr);
	/* the callee may close the session, so this is the last use of it */
	if (session->closing)
		session_check_closed(session);
	shared->events->mr_deregistered(shared->ctx, cookie);
}

static void mr_event(struct fabric_mr *mr)
{
	if (mr->state == TCP_MR_REGISTERING)
		mr_registered(mr);
	else
		mr_deregistered(mr);
}

/* The last notifications come before the event that ends the region. */
static void mr_notifications(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;
	struct tcp_shared *shared = session->shared;
	struct fabric_notifications_taken taken;

	fabric_notifications_take(&mr->notifications, &taken);
	fabric_notifications_report(&taken, shared->events, shared->ctx,
				    session->cookie, mr->cookie);
}

/* ---- end ---- */

void tcp_session_close(struct fabric_session *session)
{
	if (session->closing)
		return;
	session->closing = true;
	list_for_each(node, &session->conns)
		conn_end(container_of(node, struct tcp_conn, in_session));
	list_for_each(node, &session->mrs)
		tcp_session_dereg_mr(container_of(node, struct fabric_mr, link));
	session_check_closed(session);
}

static void session_closed(struct fabric_session *session)
{
	struct tcp_shared *shared = session->shared;
	void *cookie = session->cookie;

	session_free(session);
	shared->events->session_closed(shared->ctx, cookie);
}

void tcp_session_handle_event(struct tcp_event *event)
{
	switch (event->kind) {
	case TCP_EVENT_CONN:
		conn_over_event(container_of(event, struct tcp_conn, event));
		break;
	case TCP_EVENT_MR:
		mr_event(container_of(event, struct fabric_mr, event));
		break;
	case TCP_EVENT_NOTIFICATIONS:
		mr_notifications(
			container_of(event, struct fabric_mr, notifications_event));
		break;
	case TCP_EVENT_SESSION:
		session_closed(container_of(event, struct fabric_session, closed));
		break;
	}
}
