/* SPDX-License-Identifier: BSD-3-Clause */
/* What a client is told without asking. */
#include "base/clock.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/control.h"
#include "rmemd/control/request.h"
#include "rmemd/control/session.h"

/* Messages sent to one session before others get their turn. */
#define SENDS_PER_TURN 64

/* Whether the client is to be told that the server drains, or does not any more. */
static bool session_next_drain(struct session *session, struct wire_msg *out)
{
	const struct drain *drain = &session->sessions->control->drain;
	uint64_t left_ms;

	if (session->told == drain->number)
		return false;
	session->told = drain->number;
	left_ms = drain_left_ms(drain);
	out->type = drain->on ? WIRE_TYPE_draining : WIRE_TYPE_serving;
	/* 0 would say that it stops now */
	if (drain->on)
		out->draining.deadline_ms = left_ms == 0           ? 1
					    : left_ms < UINT32_MAX ? (uint32_t)left_ms
								   : UINT32_MAX;
	return true;
}

/* The next event for the client.  False: there is none.  Events of leases, which are few, do not
 * wait for notifications, which may come all the time. */
static bool session_next_event(struct session *session, struct wire_msg *out)
{
	struct lease_client *lease_client = &session->lease_client;

	if (session_next_drain(session, out)) {
		out->id = 0;
		return true;
	}
	if (!lease_next_event(lease_client, out)) {
		if (!lease_next_notices(lease_client, &out->notified))
			return false;
		out->type = WIRE_TYPE_notified;
	}
	out->id = 0;
	return true;
}

/* Send waiting events at sessions_tick(). */
static void session_deliver_later(struct session *session)
{
	struct sessions *sessions = session->sessions;

	if (list_empty(&session->unsent))
		list_append(&sessions->unsent, &session->unsent);
	sessions->due(sessions->control, clock_now_ms());
}

void session_deliver(struct session *session)
{
	struct wire_msg *out = &session->sessions->control->out;
	struct connection *connection = session->connection;

	for (unsigned n = 0;
	     connection && !connection->closed && !connection->ops->busy(connection);
	     n++) {
		if (n == SENDS_PER_TURN) {
			session_deliver_later(session);
			return;
		}
		if (!session_next_event(session, out))
			return;
		connection_send(connection, out);
	}
}

void session_connection_idle(struct connection *connection)
{
	if (!connection->session)
		return;
	listings_go_on(connection->session);
	session_deliver(connection->session);
}

void session_client_event(void *, struct lease_client *lease_client)
{
	struct session *session =
		container_of(lease_client, struct session, lease_client);

	/* a client that resumes attaches each lease again, and learns its state then */
	if (!session->connection)
		lease_client_drop_events(lease_client);
	/* many sessions may have a lease attached that ends */
	else if (turn_over(&session->sessions->control->turn))
		session_deliver_later(session);
	else if (list_empty(&session->unsent))
		session_deliver(session);
}

void session_client_notified(void *, struct lease_client *lease_client)
{
	struct session *session =
		container_of(lease_client, struct session, lease_client);

	/* the next notification needs the space */
	if (notices_full(&lease_client->notices))
		session_deliver(session);
	else if (session->connection)
		slices_add(&session->sessions->control->slices,
			   &lease_client->tenant->slices, &session->notify);
}

bool session_notify(struct slice_work *work)
{
	session_deliver(container_of(work, struct session, notify));
	return false;
}

/* ---- all sessions ---- */

void sessions_deliver_unsent(struct sessions *sessions)
{
	struct session *session;
	struct list turn;

	list_init(&turn);
	list_splice(&turn, &sessions->unsent);
	while ((session = list_first(&turn, struct session, unsent))) {
		list_remove(&session->unsent);
		session_deliver(session);
		if (turn_over(&sessions->control->turn))
			break;
	}
	list_splice(&sessions->unsent, &turn);
}

bool sessions_have_unsent(const struct sessions *sessions)
{
	return !list_empty(&sessions->unsent);
}

/* The events are sent by sessions_tick(), in turns. */
void sessions_announce(struct sessions *sessions)
{
	list_for_each_entry(struct session, session, &sessions->all, all)
		if (session->connection)
			session_deliver_later(session);
}
