/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/session.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "fabric/tcp/accept.h"

struct fabric_session {
	struct tcp_office *office;
	struct list link; /* office->sessions */
	void *cookie;
	bool closing;
	struct tcp_news closed;
	struct list conns;
	struct list exposures;
	/* one list per data thread, which alone looks at it while it has streams or seats */
	struct list streams[];
};

int tcp_session_open(struct tcp_office *office, void *cookie,
		     struct fabric_session **ret_session)
{
	struct fabric_session *session = calloc(
		1, sizeof(*session) + office->n_threads * sizeof(session->streams[0]));

	if (!session)
		return err_errno(-ENOMEM, "a session");
	session->office = office;
	session->cookie = cookie;
	session->closed.kind = TCP_NEWS_SESSION;
	list_init(&session->conns);
	list_init(&session->exposures);
	for (unsigned i = 0; i < office->n_threads; i++)
		list_init(&session->streams[i]);
	list_append(&office->sessions, &session->link);
	*ret_session = session;
	return 0;
}

static void conn_remove(struct tcp_conn *conn)
{
	conn->session->office->stats.channels--;
	list_remove(&conn->in_session);
	tcp_conn_free(conn);
}

static void exposure_remove(struct fabric_mr *exposure)
{
	struct tcp_office *office = exposure->session->office;

	office->stats.exposures--;
	office->stats.exposed_bytes -= exposure->bytes;
	list_remove(&exposure->link);
	tcp_exposure_free(exposure);
}

static void session_free(struct fabric_session *session)
{
	list_for_each_safe(node, &session->conns)
		conn_remove(container_of(node, struct tcp_conn, in_session));
	list_for_each_safe(node, &session->exposures)
		exposure_remove(container_of(node, struct fabric_mr, link));
	list_remove(&session->link);
	free(session);
}

void tcp_session_free_all(struct tcp_office *office)
{
	list_for_each_safe(node, &office->sessions)
		session_free(container_of(node, struct fabric_session, link));
}

/* Once nothing is left of a session that is to be closed, say so from process(). */
static void session_check_closed(struct fabric_session *session)
{
	if (session->closing && list_empty(&session->conns) &&
	    list_empty(&session->exposures))
		mailbox_post(&session->office->news, &session->closed.link);
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
	struct tcp_office *office = session->office;
	struct tcp_conn *conn;

	if (session->closing) {
		(void)tcp_lobby_verdict(fd, STREAM_REFUSED);
		goto err_refused;
	}
	if (tcp_conn_new(fd, session, channel, &conn) != 0) {
		(void)tcp_lobby_verdict(fd, STREAM_BUSY);
		office->events->channel_down(office->ctx, session->cookie, channel,
					     "no memory for the stream");
		goto err_refused;
	}
	/* a peer that is gone already is found by the thread */
	(void)tcp_lobby_verdict(fd, STREAM_DONE);
	list_append(&session->conns, &conn->in_session);
	office->stats.channels++;
	office->stats.channels_ever++;
	office->next_thread = (office->next_thread + 1) % office->n_threads;
	conn->streams = &session->streams[office->next_thread];
	tcp_thread_order(office->threads[office->next_thread], &conn->order);
	office->events->channel_up(office->ctx, session->cookie, channel);
	return;

err_refused:
	office->stats.refused++;
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

static void conn_news(struct tcp_conn *conn)
{
	struct fabric_session *session = conn->session;
	struct tcp_office *office = session->office;

	if (!conn->ended) {
		if (conn->why[0])
			office->stats.errors++;
		/* the callee may close the session: then this connection still holds it */
		office->events->channel_down(office->ctx, session->cookie,
					     conn->channel, conn->why);
	}
	conn_remove(conn);
	session_check_closed(session);
}

/* ---- exposures ---- */

static void exposure_leave(struct fabric_mr *exposure, unsigned n)
{
	struct tcp_office *office = exposure->session->office;

	while (n > 0) {
		n--;
		tcp_table_remove(tcp_thread_table(office->threads[n]),
				 &exposure->seats[n]);
	}
}

static int exposure_enter(struct fabric_mr *exposure)
{
	struct fabric_session *session = exposure->session;
	struct tcp_office *office = session->office;

	for (unsigned i = 0; i < exposure->n_seats; i++) {
		int err;

		exposure->seats[i].streams = &session->streams[i];
		err = tcp_table_add(tcp_thread_table(office->threads[i]),
				    &exposure->seats[i]);
		if (!err)
			continue;
		exposure_leave(exposure, i);
		return err;
	}
	return 0;
}

int tcp_session_expose_now(struct fabric_session *session, void *addr, size_t bytes,
			   unsigned rights, void *cookie, struct fabric_mr **ret_mr,
			   struct fabric_key *ret_key)
{
	struct tcp_office *office = session->office;
	struct fabric_mr *exposure;
	int err;

	if (session->closing)
		return err_set(-ESHUTDOWN, "the session is being closed");
	if (bytes == 0 || (rights & ~(FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE)) != 0)
		return err_set(-EINVAL, "exposing %zu bytes with rights %#x", bytes,
			       rights);
	err = tcp_exposure_new(session, addr, bytes, rights, cookie, office->n_threads,
			       &exposure);
	if (err)
		return err;
	exposure->box = &office->news;
	err = exposure_enter(exposure);
	if (err) {
		tcp_exposure_free(exposure);
		return err;
	}
	exposure->state = TCP_EXPOSED;
	list_append(&session->exposures, &exposure->link);
	office->stats.exposures++;
	office->stats.exposed_bytes += bytes;
	*ret_key = exposure->key;
	*ret_mr = exposure;
	return 0;
}

int tcp_session_expose(struct fabric_session *session, void *addr, size_t bytes,
		       unsigned rights, void *cookie, struct fabric_mr **ret_mr)
{
	struct fabric_key key;
	int err = tcp_session_expose_now(session, addr, bytes, rights, cookie, ret_mr,
					 &key);

	if (err)
		return err;
	(*ret_mr)->state = TCP_EXPOSING;
	mailbox_post(&session->office->news, &(*ret_mr)->news.link);
	return 0;
}

/* No stream is at it, nor will be.  False: perhaps one is. */
static bool exposure_deserted(struct fabric_mr *exposure)
{
	bool deserted = true;

	list_for_each(node, &exposure->session->conns) {
		struct tcp_conn *conn = container_of(node, struct tcp_conn, in_session);

		/* those that were killed touch nothing any more */
		if (!conn->ended && !tcp_conn_try_forget(conn, exposure))
			deserted = false;
	}
	return deserted;
}

/* Nobody finds it any more.  True: nor is there anything to wait for; else news will come. */
static bool exposure_stop(struct fabric_mr *exposure)
{
	struct tcp_office *office = exposure->session->office;

	exposure->state = TCP_WITHDRAWING;
	exposure_leave(exposure, exposure->n_seats);
	if (exposure_deserted(exposure))
		return true;
	atomic_store(&exposure->pending, exposure->n_seats);
	for (unsigned i = 0; i < exposure->n_seats; i++) {
		exposure->seats[i].order.kind = TCP_ORDER_WITHDRAW;
		tcp_thread_order(office->threads[i], &exposure->seats[i].order);
	}
	return false;
}

/* With news in any case. */
static void exposure_stop_later(struct fabric_mr *exposure)
{
	if (exposure_stop(exposure))
		mailbox_post(&exposure->session->office->news, &exposure->news.link);
}

void tcp_session_withdraw(struct fabric_mr *exposure)
{
	exposure->withdraw_wanted = true;
	/* other news are under way otherwise; they will see what is wanted */
	if (exposure->state == TCP_EXPOSED)
		exposure_stop_later(exposure);
}

bool tcp_session_withdraw_now(struct fabric_mr *exposure)
{
	if (exposure->state != TCP_EXPOSED) {
		tcp_session_withdraw(exposure);
		return false;
	}
	exposure->withdraw_wanted = true;
	if (!exposure_stop(exposure))
		return false;
	/* notifications are delivered first */
	if (fabric_notifications_told(&exposure->notes)) {
		mailbox_post(&exposure->session->office->news, &exposure->news.link);
		return false;
	}
	exposure_remove(exposure);
	return true;
}

static void exposure_exposed(struct fabric_mr *exposure)
{
	struct tcp_office *office = exposure->session->office;

	exposure->state = TCP_EXPOSED;
	if (exposure->withdraw_wanted)
		exposure_stop_later(exposure);
	else
		office->events->mr_registered(office->ctx, exposure->cookie, 0, "",
					      &exposure->key);
}

/* No stream is at it any more. */
static void exposure_withdrawn(struct fabric_mr *exposure)
{
	struct fabric_session *session = exposure->session;
	struct tcp_office *office = session->office;
	void *cookie = exposure->cookie;

	exposure_remove(exposure);
	/* last look at the session: the callee may close it, and its end is news of its own */
	if (session->closing)
		session_check_closed(session);
	office->events->mr_deregistered(office->ctx, cookie);
}

static void exposure_news(struct fabric_mr *exposure)
{
	if (exposure->state == TCP_EXPOSING)
		exposure_exposed(exposure);
	else
		exposure_withdrawn(exposure);
}

/* The last of them come before the news that no thread knows it any more. */
static void exposure_notes(struct fabric_mr *exposure)
{
	struct fabric_session *session = exposure->session;
	struct tcp_office *office = session->office;
	struct fabric_notifications_taken taken;

	fabric_notifications_take(&exposure->notes, &taken);
	fabric_notifications_report(&taken, office->events, office->ctx,
				    session->cookie, exposure->cookie);
}

/* ---- end ---- */

void tcp_session_close(struct fabric_session *session)
{
	if (session->closing)
		return;
	session->closing = true;
	list_for_each(node, &session->conns)
		conn_end(container_of(node, struct tcp_conn, in_session));
	list_for_each(node, &session->exposures)
		tcp_session_withdraw(container_of(node, struct fabric_mr, link));
	session_check_closed(session);
}

static void session_news(struct fabric_session *session)
{
	struct tcp_office *office = session->office;
	void *cookie = session->cookie;

	session_free(session);
	office->events->session_closed(office->ctx, cookie);
}

void tcp_session_news(struct tcp_news *news)
{
	switch (news->kind) {
	case TCP_NEWS_CONN:
		conn_news(container_of(news, struct tcp_conn, news));
		break;
	case TCP_NEWS_EXPOSURE:
		exposure_news(container_of(news, struct fabric_mr, news));
		break;
	case TCP_NEWS_NOTES:
		exposure_notes(container_of(news, struct fabric_mr, notes_news));
		break;
	case TCP_NEWS_SESSION:
		session_news(container_of(news, struct fabric_session, closed));
		break;
	}
}
