/* SPDX-License-Identifier: BSD-3-Clause */
/* All sessions: the table is opened and closed, and they are fenced and ended in time. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/control.h"
#include "rmemd/control/request.h"
#include "rmemd/control/session.h"

int sessions_open(struct control *control,
		  void (*due)(struct control *control, uint64_t ms),
		  struct sessions **ret_sessions)
{
	struct sessions *sessions = calloc(1, sizeof(*sessions));

	if (!sessions)
		return err_set(-ENOMEM, "no memory for the sessions");
	sessions->control = control;
	sessions->due = due;
	sessions->work = session_end_some;
	sessions->notify = session_notify;
	sessions->next_id = control->first_id;
	map_init(&sessions->by_id);
	list_init(&sessions->all);
	list_init(&sessions->ended);
	list_init(&sessions->unsent);
	*ret_sessions = sessions;
	return 0;
}

static void sessions_free_list(struct list *list)
{
	struct session *session;

	while ((session = list_first(list, struct session, all))) {
		requests_free(session);
		session_drop_channels(session);
		session_free(session);
	}
}

void sessions_close(struct sessions *sessions)
{
	if (!sessions)
		return;
	sessions_free_list(&sessions->all);
	sessions_free_list(&sessions->ended);
	map_destroy(&sessions->by_id);
	free(sessions);
}

/* Fence the silent sessions. */
static void tick_heard(struct sessions *sessions, uint64_t now_ms)
{
	struct session *session = session_next(&sessions->heard, 0, 0);

	while (session) {
		uint64_t heard_ms = session->in_times.major;
		uint64_t id = session->in_times.minor;

		if (sessions_heard_due_ms(sessions, heard_ms) > now_ms)
			break;
		if (session->heard_ms > heard_ms)
			session_set_time(session);
		/* The process was stopped, or has much to read.  The session stays due, and is
		 * fenced unless this is a frame. */
		else if (!session->connection->ops->unread(session->connection))
			session_fence_silent(session);
		/* the others stay due */
		if (turn_over(&sessions->control->turn))
			break;
		session = session_next(&sessions->heard, heard_ms, id);
	}
}

/* End the sessions whose clients have not come back. */
static void tick_fenced(struct sessions *sessions, uint64_t now_ms)
{
	struct session *session;

	while ((session = session_next(&sessions->fenced, 0, 0)) &&
	       sessions_fenced_due_ms(sessions, session->fenced_ms) <= now_ms) {
		session_end(session, WIRE_STEP_EXPIRE, "its grace time is over");
		if (turn_over(&sessions->control->turn))
			break;
	}
}

void sessions_tick(struct sessions *sessions)
{
	uint64_t now_ms = clock_now_ms();

	sessions_deliver_unsent(sessions);
	tick_heard(sessions, now_ms);
	tick_fenced(sessions, now_ms);
}

uint64_t sessions_next_ms(const struct sessions *sessions)
{
	const struct tree_node *heard = tree_above(&sessions->heard, 0, 0);
	const struct tree_node *fenced = tree_above(&sessions->fenced, 0, 0);
	uint64_t next_ms = list_empty(&sessions->unsent) ? UINT64_MAX : clock_now_ms();

	if (heard && sessions_heard_due_ms(sessions, heard->major) < next_ms)
		next_ms = sessions_heard_due_ms(sessions, heard->major);
	if (fenced && sessions_fenced_due_ms(sessions, fenced->major) < next_ms)
		next_ms = sessions_fenced_due_ms(sessions, fenced->major);
	return next_ms;
}

void sessions_stop(struct sessions *sessions, bool back)
{
	sessions->stopping = true;
	list_for_each_entry(struct session, session, &sessions->all, all) {
		struct connection *connection = session->connection;
		struct wire_msg *out;

		if (!connection)
			continue;
		out = control_message(sessions->control, WIRE_TYPE_draining, 0);
		out->draining.deadline_ms = 0;
		connection_send(connection, out);
		out = control_message(sessions->control, WIRE_TYPE_closing, 0);
		out->closing.reason = WIRE_REASON_SHUTDOWN;
		if (!back)
			connection_send(connection, out);
		connection_close(connection);
	}
}
