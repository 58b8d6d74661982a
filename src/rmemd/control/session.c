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
#include "rmemd/control/session_record.h"
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

struct session *session_new(struct sessions *sessions)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->sessions = sessions;
	reply_cache_init(&session->replies);
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++)
		session->ports[i].session = session;
	list_init(&session->channels);
	list_init(&session->requests);
	list_init(&session->noticed);
	list_init(&session->behind);
	list_init(&session->all);
	return session;
}

int session_insert(struct session *session)
{
	struct sessions *sessions = session->sessions;

	if (map_insert(&sessions->by_id, &session->by_id,
		       map_hash_u64(session->holder.id)))
		return err_set(-ENOMEM, "no memory for a session");
	list_append(&sessions->all, &session->all);
	return 0;
}

int session_open(struct sessions *sessions, struct connection *connection,
		 const char *tenant_name, const char *client)
{
	struct control *control = sessions->control;
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
	holder_init(&session->holder, sessions->next_id, tenant);
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
		holder_destroy(&session->holder);
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

void session_heard(struct session *session)
{
	session->heard_ms = clock_now_ms();
}

void session_fence(struct session *session, const char *why)
{
	session->state = SESSION_FENCED;
	session->fenced_ms = clock_now_ms();
	session->sessions->control->counters.sessions_fenced++;
	session_close_ports(session);
	log_session(session->sessions->stopping ? LOG_DEBUG : LOG_NOTICE,
		    "session-fenced", session, why);
	timer_moved(session);
}

/* Its ports are closed; what it had goes, and it does once its keys are dead. */
void session_end(struct session *session, const char *why)
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
	holder_release(&session->holder);
	log_session(LOG_INFO, "session-ended", session, why);
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

void session_rest(struct session *session)
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

int session_resume(struct sessions *sessions, struct connection *connection,
		   const char *tenant, uint64_t id,
		   const uint8_t token[WIRE_TOKEN_BYTES], uint64_t hello_id)
{
	static const uint8_t nobody[WIRE_TOKEN_BYTES];
	struct session *session = sessions_find(sessions, id);
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

void sessions_connection_lost(struct sessions *sessions, struct connection *connection,
			      const char *why)
{
	if (connection->session)
		lost(connection->session, why);
	if (!connection->hello_pending)
		return;
	stop_waiting(&sessions->all, connection);
	stop_waiting(&sessions->ended, connection);
}

void session_miss(struct session *session)
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

uint64_t session_id(const struct session *session)
{
	return session->holder.id;
}

struct holder *session_holder(struct session *session)
{
	return &session->holder;
}

void session_news(struct holder *holder)
{
	struct session *session = container_of(holder, struct session, holder);

	/* who comes back asks for each lease, and hears of it then */
	if (!session->connection)
		holder_forget_news(holder);
	else if (list_empty(&session->behind))
		session_deliver(session);
}

void session_noticed(struct holder *holder)
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
static bool take_news(struct holder *holder, struct wire_msg *out)
{
	if (!lease_take_news(holder, out)) {
		if (!lease_take_notices(holder, &out->notified))
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
