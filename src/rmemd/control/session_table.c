/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/session_table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/session_requests.h"

int sessions_open(struct control *control, const struct sessions_events *events,
		  void *ctx, uint64_t first_id, struct sessions **ret_sessions)
{
	struct sessions *sessions = calloc(1, sizeof(*sessions));

	if (!sessions)
		return err_set(-ENOMEM, "no memory for the sessions");
	sessions->control = control;
	sessions->events = events;
	sessions->ctx = ctx;
	sessions->next_id = first_id;
	map_init(&sessions->by_id);
	list_init(&sessions->all);
	list_init(&sessions->ended);
	list_init(&sessions->noticed);
	list_init(&sessions->behind);
	*ret_sessions = sessions;
	return 0;
}

void session_free(struct session *session)
{
	session_forget_channels(session);
	reply_cache_clear(&session->replies);
	list_remove(&session->all);
	list_remove(&session->noticed);
	list_remove(&session->behind);
	holder_destroy(&session->holder);
	free(session);
}

static void free_all(struct list *list)
{
	struct session *session;
	struct request *request;

	while ((session = list_first(list, struct session, all))) {
		/* the leases that they waited for are gone */
		while ((request = list_first(&session->requests, struct request, link)))
			request_free(request);
		session_free(session);
	}
}

void sessions_close(struct sessions *sessions)
{
	if (!sessions)
		return;
	free_all(&sessions->all);
	free_all(&sessions->ended);
	map_destroy(&sessions->by_id);
	free(sessions);
}

uint64_t session_due_ms(const struct session *session)
{
	const struct config *config = session->sessions->control->config;

	if (session->state == SESSION_ACTIVE)
		return session->heard_ms + config->fence_ms;
	/* a client that is just coming back is not too late */
	if (session->waiting_connection)
		return UINT64_MAX;
	return session->fenced_ms + config->grace_ms;
}

/* Those that then have still more wait for the next time. */
static void deliver_behind(struct sessions *sessions)
{
	struct session *session;
	struct list turn;

	list_init(&turn);
	list_splice(&turn, &sessions->behind);
	while ((session = list_first(&turn, struct session, behind))) {
		list_remove(&session->behind);
		session_deliver(session);
	}
}

void sessions_tick(struct sessions *sessions)
{
	uint64_t now_ms = clock_now_ms();

	deliver_behind(sessions);
	list_for_each_safe(node, &sessions->all) {
		struct session *session = container_of(node, struct session, all);

		if (session_due_ms(session) > now_ms)
			continue;
		if (session->state == SESSION_ACTIVE) {
			session_miss(session);
		} else {
			session_end(session, "its time of grace is over");
			session_rest(session);
		}
	}
}

uint64_t sessions_next_ms(const struct sessions *sessions)
{
	uint64_t next_ms = list_empty(&sessions->behind) ? UINT64_MAX : clock_now_ms();

	list_for_each(node, &sessions->all) {
		uint64_t ms = session_due_ms(container_of(node, struct session, all));

		if (ms < next_ms)
			next_ms = ms;
	}
	return next_ms;
}

void sessions_stop(struct sessions *sessions, bool back)
{
	sessions->stopping = true;
	list_for_each(node, &sessions->all) {
		struct connection *connection =
			container_of(node, struct session, all)->connection;
		struct wire_msg *out;

		if (!connection)
			continue;
		out = &connection->control->out;
		out->type = WIRE_TYPE_closing;
		out->id = 0;
		out->closing.reason = WIRE_REASON_SHUTDOWN;
		if (!back)
			connection_send(connection, out);
		connection_close(connection);
	}
}

static const char *fabric_text(const struct holder *holder)
{
	bool kinds[FABRIC_VERBS + 1] = { false };

	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++)
		if (holder->ports[i].session)
			kinds[holder->ports[i].ops->kind] = true;
	if (kinds[FABRIC_VERBS])
		return kinds[FABRIC_TCP] ? "rdma,tcp" : "rdma";
	return kinds[FABRIC_TCP] ? "tcp" : "";
}

int sessions_each(const struct sessions *sessions,
		  int (*each)(const struct session_status *status, void *arg),
		  void *arg)
{
	uint64_t now_ms = clock_now_ms();
	int result;

	list_for_each(node, &sessions->all) {
		const struct session *session = container_of(node, struct session, all);
		struct session_status status = {
			.id = session->holder.id,
			.tenant = session->holder.tenant->name,
			.client = session->client,
			.peer = session->address,
			.state = session->state == SESSION_ACTIVE ? "active" : "fenced",
			.fabric = fabric_text(&session->holder),
			.age_ms = now_ms - session->opened_ms,
			.idle_ms = now_ms - session->heard_ms,
			.channels = session->n_connected,
			.leases = session->holder.n_attachments,
			.keys = session->holder.n_keys,
			.watches = session->holder.n_watches,
			.notices = session->holder.notices.n,
			.lent_bytes = holder_lent_bytes(&session->holder),
			.resumes = session->resumes,
		};

		result = each(&status, arg);
		if (result)
			return result;
	}
	return 0;
}

struct holder *sessions_holder(const struct sessions *sessions, uint64_t id)
{
	struct session *session = sessions_find(sessions, id);

	return session ? &session->holder : NULL;
}

unsigned sessions_count(const struct sessions *sessions)
{
	return (unsigned)sessions->by_id.n_nodes;
}

struct session *sessions_find(const struct sessions *sessions, uint64_t id)
{
	struct map_node *node = map_find(&sessions->by_id, map_hash_u64(id));

	for (; node; node = map_find_next(node)) {
		struct session *session = container_of(node, struct session, by_id);

		if (session->holder.id == id)
			return session;
	}
	return NULL;
}
