/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/random.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/session_channels.h"
#include "rmemd/control/session_requests.h"
#include "rmemd/control/session_table.h"
#include "rmemd/state/ledger.h"

/* What one session is told before others get their turn. */
#define SENDS_PER_TURN 256

static void log_session(int level, const char *event, const struct session *session,
			const char *text)
{
	log_event(level, event,
		  &(struct log_ctx){ .session = session->holder.id,
				     .peer = session->address,
				     .tenant = session->holder.tenant->name },
		  "%s: %s", session->client, text);
}

static uint64_t session_due_ms(const struct session *session)
{
	const struct config *config = session->sessions->control->config;

	if (session->state == SESSION_ACTIVE)
		return session->heard_ms + config->fence_ms;
	/* a client that is just coming back is not too late */
	if (session->waiting_connection)
		return UINT64_MAX;
	return session->fenced_ms + config->grace_ms;
}

static void timer_moved(const struct session *session)
{
	session->sessions->events->due(session->sessions->ctx, session_due_ms(session));
}

static void take_connection(struct session *session, struct connection *connection)
{
	session->connection = connection;
	connection->session = session;
	(void)snprintf(session->address, sizeof(session->address), "%s",
		       connection->name);
	session->heard_ms = clock_now_ms();
}

static struct connection *lose_connection(struct session *session)
{
	struct connection *connection = session->connection;

	session->connection = NULL;
	if (connection) {
		connection->session = NULL;
		requests_orphan(session);
	}
	return connection;
}

int session_open(struct connection *connection, const char *tenant_name,
		 const char *client)
{
	struct control *control = connection->control;
	struct sessions *sessions = control->sessions;
	struct tenant *tenant = tenants_find(control->tenants, tenant_name);
	struct session *session;
	int err;

	if (!tenant)
		return err_set(
			-EACCES,
			"there is no tenant \"%s\" on this server: it must be one "
			"that its configuration has a section for",
			tenant_name);
	err = tenant_check_session(tenant);
	if (err)
		return err;
	if (sessions->by_id.n_nodes >= control->config->sessions_max)
		return err_set(-EDQUOT,
			       "the server has %zu sessions, as many as it may",
			       sessions->by_id.n_nodes);
	session = session_new(sessions);
	if (!session)
		return err_set(-ENOMEM, "no memory for a session");
	lease_client_init(&session->holder, sessions->next_id, tenant);
	random_bytes(session->token, sizeof(session->token));
	(void)snprintf(session->client, sizeof(session->client), "%s", client);
	session->opened_ms = clock_now_ms();
	(void)snprintf(session->address, sizeof(session->address), "%s",
		       connection->name);
	err = session_record(session);
	if (!err)
		err = session_insert(session);
	if (err) {
		session_unrecord(session);
		lease_client_destroy(&session->holder);
		free(session);
		return err;
	}
	sessions->next_id++;
	session->state = SESSION_ACTIVE;
	take_connection(session, connection);
	control->counters.sessions_opened++;
	log_session(LOG_INFO, "session-opened", session, "a new session");
	timer_moved(session);
	return 0;
}

void session_welcome(const struct session *session, uint64_t hello_id, bool resumed,
		     const struct session_first *first)
{
	const struct control *control = session->sessions->control;
	const struct config *config = control->config;
	struct connection *connection = session->connection;
	struct wire_msg *out = &connection->control->out;
	const struct tenant_limits *limits = &session->holder.tenant->limits;
	uint64_t max = limits->lease_max;

	memset(&out->welcome, 0, sizeof(out->welcome));
	out->type = WIRE_TYPE_welcome;
	out->id = hello_id;
	_Static_assert(WIRE_ENDPOINT_CONFIRM == FABRIC_ENDPOINT_CONFIRM &&
			       WIRE_ENDPOINT_ATOMICS == FABRIC_ENDPOINT_ATOMICS &&
			       WIRE_ENDPOINT_DIRECT == FABRIC_ENDPOINT_DIRECT &&
			       WIRE_ENDPOINT_INBAND == FABRIC_ENDPOINT_INBAND,
		       "the fabric's flags are the protocol's");
	out->welcome.version = connection->version;
	out->welcome.session = session->holder.id;
	memcpy(out->welcome.token, session->token, WIRE_TOKEN_BYTES);
	out->welcome.resumed = resumed;
	out->welcome.heartbeat_ms = (uint32_t)config->heartbeat_ms;
	out->welcome.fence_ms = (uint32_t)config->fence_ms;
	out->welcome.grace_ms = (uint32_t)config->grace_ms;
	out->welcome.channels_max = config->channels_max;
	if (limits->channels_max && limits->channels_max < config->channels_max)
		out->welcome.channels_max = limits->channels_max;
	out->welcome.lease_bytes_max =
		max && max < control->memory_bytes ? max : control->memory_bytes;
	memcpy(out->welcome.server, control->server, sizeof(control->server));
	for (unsigned i = 0; i < control->endpoints->n; i++) {
		const struct fabric_endpoint *facts = control->endpoints->at[i].facts;
		struct wire_endpoint *item = &out->welcome.endpoints[i];

		item->fabric = facts->kind == FABRIC_VERBS ? WIRE_FABRIC_VERBS
							   : WIRE_FABRIC_TCP;
		item->family = facts->address.family;
		memcpy(item->address, facts->address.bytes, sizeof(item->address));
		item->port = facts->address.port;
		item->node = facts->node;
		item->flags = facts->flags;
		if (*facts->device && (control->sole & (1u << i)))
			item->flags |= WIRE_ENDPOINT_SOLE;
		(void)snprintf(item->device, sizeof(item->device), "%s", facts->device);
	}
	out->welcome.n_endpoints = (uint16_t)control->endpoints->n;
	out->welcome.channel = first->channel;
	out->welcome.endpoint = first->endpoint;
	WIRE_END_COPY(&out->welcome, &first->end);
	connection_send(connection, out);
}

static void session_fence(struct session *session, const char *why)
{
	session->state = SESSION_FENCED;
	session->fenced_ms = clock_now_ms();
	session->sessions->control->counters.sessions_fenced++;
	session_close_ports(session);
	log_session(session->sessions->stopping ? LOG_DEBUG : LOG_NOTICE,
		    "session-fenced", session, why);
	timer_moved(session);
}

/* What it had goes, and the session once its keys are dead.  session_rest() comes next. */
static void session_end(struct session *session, const char *why)
{
	struct sessions *sessions = session->sessions;

	if (session->state == SESSION_ACTIVE)
		session_close_ports(session);
	session->state = SESSION_ENDED;
	session_unrecord(session);
	ledger_commit(sessions->control->ledger);
	map_remove(&sessions->by_id, &session->by_id);
	list_remove(&session->all);
	list_append(&sessions->ended, &session->all);
	requests_cancel(session);
	lease_client_release(&session->holder);
	log_session(LOG_INFO, "session-ended", session, why);
}

static void activate(struct session *session, struct connection *connection)
{
	session->state = SESSION_ACTIVE;
	session->resumes++;
	session->sessions->control->counters.sessions_resumed++;
	take_connection(session, connection);
	/* An endpoint that fails now is tried again when a channel is opened there. */
	for (unsigned i = 0; i < session->sessions->control->endpoints->n; i++)
		if (session->ports[i].used)
			(void)session_open_port(session, i);
	log_session(LOG_NOTICE, "session-resumed", session, "the client is back");
	timer_moved(session);
}

static void session_rest(struct session *session)
{
	static const struct session_first none;
	struct connection *connection = session->waiting_connection;

	if (session->n_closing)
		return;
	session->waiting_connection = NULL;
	if (session->state == SESSION_ENDED) {
		if (connection) {
			connection_send_ok(connection, session->waiting_id);
			connection_close(connection);
		}
		session_free(session);
		return;
	}
	/* it may have been closed while it waited: the time of grace counts again */
	if (!connection || connection->closed) {
		timer_moved(session);
		return;
	}
	activate(session, connection);
	session_welcome(session, session->waiting_id, true, &none);
	connection->hello_pending = false;
	connection->ops->authenticated(connection);
	session_deliver(session);
}

void session_bye(struct session *session, uint64_t bye_id)
{
	struct connection *connection = lose_connection(session);

	session_end(session, "the client said good-bye");
	/* Nothing else may be asked for; the answer tells that all keys are dead. */
	connection->hello_pending = true;
	session->waiting_connection = connection;
	session->waiting_id = bye_id;
	session_rest(session);
}

int session_resume(struct connection *connection, const char *tenant, uint64_t id,
		   const uint8_t token[WIRE_TOKEN_BYTES], uint64_t hello_id)
{
	static const uint8_t nobody[WIRE_TOKEN_BYTES];
	struct session *session = sessions_find(connection->control->sessions, id);
	bool known = secret_equal(session ? session->token : nobody, token,
				  WIRE_TOKEN_BYTES);
	struct connection *old;

	if (!session || !known)
		return err_set(-ESTALE,
			       "session %" PRIu64
			       " has ended, or the token is not its own",
			       id);
	if (strcmp(session->holder.tenant->name, tenant) != 0)
		return err_set(-EACCES,
			       "session %" PRIu64
			       " is of tenant %s, and only that can resume it",
			       id, session->holder.tenant->name);
	if (session->state == SESSION_ACTIVE) {
		old = lose_connection(session);
		session_fence(session, "the client is back on another connection");
		connection_close(old);
	}
	/* of several that want it the last one gets it */
	if (session->waiting_connection)
		connection_close(session->waiting_connection);
	session->waiting_connection = connection;
	session->waiting_id = hello_id;
	connection->hello_pending = true;
	session_rest(session);
	return 0;
}

struct fabric_session *sessions_admit(struct sessions *sessions, unsigned endpoint,
				      const struct fabric_hello *hello)
{
	struct control *control = sessions->control;
	struct session *session = sessions_find(sessions, hello->session);
	const char *why;
	struct fabric_session *admitted = session_admit(session, endpoint, hello, &why);

	if (admitted)
		return admitted;
	control->counters.channels_refused++;
	log_event(LOG_NOTICE, "channel-refused",
		  &(struct log_ctx){
			  .session = hello->session,
			  .device = control->endpoints->at[endpoint].facts->device },
		  "%s", why);
	return NULL;
}

void session_closed(void *session_cookie)
{
	struct session_port *port = session_cookie;
	struct session *session = port->session;

	session->n_closing--;
	session_port_closed(port);
	if (session->waiting_connection || session->state == SESSION_ENDED)
		session_rest(session);
}

static void lost(struct session *session, const char *why)
{
	char text[160];

	(void)lose_connection(session);
	(void)snprintf(text, sizeof(text), "the control connection is lost: %s", why);
	session_fence(session, text);
}

static void stop_waiting(struct list *list, const struct connection *connection)
{
	list_for_each(node, list) {
		struct session *session = container_of(node, struct session, all);

		if (session->waiting_connection != connection)
			continue;
		session->waiting_connection = NULL;
		/* its time of grace counts again */
		timer_moved(session);
	}
}

void session_connection_lost(struct connection *connection, const char *why)
{
	struct sessions *sessions = connection->control->sessions;

	connection->closed = true;
	if (connection->session)
		lost(connection->session, why);
	if (!connection->hello_pending)
		return;
	stop_waiting(&sessions->all, connection);
	stop_waiting(&sessions->ended, connection);
}

void session_connection_idle(struct connection *connection)
{
	if (connection->session)
		session_deliver(connection->session);
}

static void session_miss(struct session *session)
{
	struct connection *connection = lose_connection(session);
	struct wire_msg *out = &connection->control->out;
	char text[80];

	(void)snprintf(text, sizeof(text), "no sign of life for %" PRIu64 " ms",
		       clock_now_ms() - session->heard_ms);
	session_fence(session, text);
	out->type = WIRE_TYPE_closing;
	out->id = 0;
	out->closing.reason = WIRE_REASON_FENCED;
	connection_send(connection, out);
	connection_close(connection);
}

void session_news(struct lease_client *holder)
{
	struct session *session = container_of(holder, struct session, holder);

	/* who comes back asks for each lease, and hears of it then */
	if (!session->connection)
		lease_client_drop_events(holder);
	else if (list_empty(&session->behind))
		session_deliver(session);
}

void session_noticed(struct lease_client *holder)
{
	struct session *session = container_of(holder, struct session, holder);

	if (list_empty(&session->noticed))
		list_append(&session->sessions->noticed, &session->noticed);
	/* what comes next needs the room */
	if (notices_full(&holder->notices))
		session_deliver(session);
}

/* The next of what the holder is to be told.  False: there is nothing.  News of leases, of which
 * there are few, do not wait for notifications, which may come all the time. */
static bool take_news(struct lease_client *holder, struct wire_msg *out)
{
	if (!lease_next_event(holder, out)) {
		if (!lease_next_notices(holder, &out->notified))
			return false;
		out->type = WIRE_TYPE_notified;
	}
	out->id = 0;
	return true;
}

void session_deliver(struct session *session)
{
	struct sessions *sessions = session->sessions;
	struct wire_msg *out = &sessions->control->out;
	struct connection *connection = session->connection;

	for (unsigned n = 0;
	     connection && !connection->closed && !connection->ops->busy(connection);
	     n++) {
		if (n == SENDS_PER_TURN) {
			if (list_empty(&session->behind))
				list_append(&sessions->behind, &session->behind);
			sessions->events->due(sessions->ctx, clock_now_ms());
			return;
		}
		if (!take_news(&session->holder, out))
			return;
		connection_send(connection, out);
	}
}

void sessions_deliver(struct sessions *sessions)
{
	struct session *session;

	while ((session = list_first(&sessions->noticed, struct session, noticed))) {
		list_remove(&session->noticed);
		session_deliver(session);
	}
}

/* ---- all sessions ---- */

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

static void free_all(struct list *list)
{
	struct session *session;

	while ((session = list_first(list, struct session, all))) {
		requests_free(session);
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

static const char *fabric_text(const struct lease_client *holder)
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
			.lent_bytes = lease_client_lent_bytes(&session->holder),
			.resumes = session->resumes,
		};

		result = each(&status, arg);
		if (result)
			return result;
	}
	return 0;
}

struct lease_client *sessions_holder(const struct sessions *sessions, uint64_t id)
{
	struct session *session = sessions_find(sessions, id);

	return session ? &session->holder : NULL;
}

unsigned sessions_count(const struct sessions *sessions)
{
	return (unsigned)sessions->by_id.n_nodes;
}
