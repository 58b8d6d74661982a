/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/session.h"

#include <assert.h>
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
#include "rmemd/control/control.h"
#include "rmemd/control/request.h"
#include "rmemd/state/ledger.h"

/* Keys and leases that are ended before others get their turn. */
#define KEYS_PER_SLICE 128
#define LEASES_PER_SLICE 64

#define KICKED "the administrator has ended the session"

static void log_session(int level, const char *event, const struct session *session,
			const char *text)
{
	log_event(level, event,
		  &(struct log_ctx){ .session = session->lease_client.id,
				     .peer = session->address,
				     .tenant = session->lease_client.tenant->name },
		  "%s: %s", session->client, text);
}

/* The session's state or connection has changed. */
static void timer_moved(struct session *session)
{
	struct sessions *sessions = session->sessions;

	assert((session->state == WIRE_SESSION_ACTIVE) ==
	       (session->connection != NULL));
	session_set_time(session);
	if (session->times == &sessions->heard)
		sessions->due(sessions->control,
			      sessions_heard_due_ms(sessions, session->heard_ms));
	else if (session->times == &sessions->fenced)
		sessions->due(sessions->control,
			      sessions_fenced_due_ms(sessions, session->fenced_ms));
}

void session_heard(struct session *session, uint64_t ago_ms)
{
	uint64_t at_ms = clock_now_ms() - ago_ms;

	if (at_ms <= session->heard_ms)
		return;
	session->heard_ms = at_ms;
	session_extend_ports(session);
}

static void session_adopt(struct session *session, struct connection *connection)
{
	assert(!session->connection && !connection->session);
	session->connection = connection;
	connection->session = session;
	session->auth = connection->auth;
	(void)snprintf(session->address, sizeof(session->address), "%s",
		       connection->name);
	lease_client_set_origin(&session->lease_client, session->client,
				session->address);
	session_heard(session, 0);
}

static struct connection *session_detach_connection(struct session *session)
{
	struct connection *connection = session->connection;

	session->connection = NULL;
	if (connection) {
		connection->session = NULL;
		listings_cancel(session);
		requests_orphan(session);
	}
	return connection;
}

/* The connection that waits until the session's keys are dead; NULL: none. */
static void session_await(struct session *session, struct connection *connection)
{
	assert(!connection || !connection->awaited);
	if (session->waiting_connection)
		session->waiting_connection->awaited = NULL;
	session->waiting_connection = connection;
	if (connection)
		connection->awaited = session;
	session_set_time(session);
}

void session_opened(struct session *session, uint64_t hello_id, enum wire_fabric fabric)
{
	struct connection *connection = session->connection;

	/* until now the client could not show that it is alive */
	session_heard(session, 0);
	session_welcome(session, hello_id, false, fabric);
	connection->ops->authenticated(connection);
}

static void session_start_work(struct session *session);

static void session_fence(struct session *session, enum wire_step step, const char *why)
{
	wire_session_move(&session->state, step);
	session->fenced_ms = clock_now_ms();
	session->sessions->control->counters.sessions_fenced++;
	session_close_ports(session);
	log_session(session->sessions->stopping ? LOG_DEBUG : LOG_NOTICE,
		    "session-fenced", session, why);
	timer_moved(session);
	session_start_work(session);
}

void session_end(struct session *session, enum wire_step step, const char *why)
{
	struct sessions *sessions = session->sessions;

	if (session->state == WIRE_SESSION_ACTIVE)
		session_close_ports(session);
	wire_session_move(&session->state, step);
	session_set_time(session);
	session_unrecord(session);
	ledger_commit(sessions->control->ledger);
	map_remove(&sessions->by_id, &session->by_id);
	list_move(&sessions->ended, &session->all);
	requests_cancel(session);
	log_session(LOG_INFO, "session-ended", session, why);
	session_start_work(session);
}

static void session_activate(struct session *session, struct connection *connection)
{
	wire_session_move(&session->state, WIRE_STEP_RESUME);
	session->resumes++;
	/* a client that resumes takes it that the server goes on */
	session->told = session->sessions->control->drain.on
				? 0
				: session->sessions->control->drain.number;
	session->sessions->control->counters.sessions_resumed++;
	session_adopt(session, connection);
	/* An endpoint that fails now is tried again when a channel is opened there. */
	for (unsigned i = 0; i < session->sessions->control->endpoints.n; i++)
		if (session->ports[i].used)
			(void)session_open_port(session, i);
	log_session(LOG_NOTICE, "session-resumed", session, "the client is back");
	timer_moved(session);
}

/* Whether keys or leases remain that session->work ends. */
static bool session_has_work(const struct session *session)
{
	const struct lease_client *client = &session->lease_client;

	return !list_empty(&client->unfenced) ||
	       (session->state == WIRE_SESSION_ENDED &&
		!(list_empty(&client->owned) && list_empty(&client->attachments)));
}

/* No effect while keys are being ended, and their fabric_sessions closed.  Then an ended session is
 * freed, and a fenced one is resumed if a connection waits for it. */
static void session_when_keys_dead(struct session *session)
{
	struct connection *connection = session->waiting_connection;

	if (session->n_closing || session_has_work(session))
		return;
	session_await(session, NULL);
	if (session->state == WIRE_SESSION_ENDED) {
		if (connection) {
			connection_send_ok(connection, session->waiting_id);
			connection_close(connection);
		}
		session_drop_channels(session);
		session_free(session);
		return;
	}
	/* if the connection was closed while it waited, the grace time counts again */
	if (!connection || connection->closed ||
	    connection->ops->abandoned(connection)) {
		timer_moved(session);
		return;
	}
	session_activate(session, connection);
	session_welcome(session, session->waiting_id, true, WIRE_FABRIC_AUTO);
	connection->hello_pending = false;
	connection->ops->authenticated(connection);
	session_deliver(session);
}

/* End keys and leases of the session, in slices; a session that has none makes room at once.  This
 * may free it. */
static void session_start_work(struct session *session)
{
	if (session_has_work(session))
		slices_start(&session->sessions->control->slices,
			     &session->lease_client.tenant->slices, &session->work);
	else
		session_when_keys_dead(session);
}

static uint32_t sessions_max(const struct control *control)
{
	uint32_t max = control->config->sessions_max;

	return control->sessions_fit && control->sessions_fit < max
		       ? control->sessions_fit
		       : max;
}

/* Whether a client that resumes this fenced session would find neither leases nor requests. */
static bool session_is_vacant(const struct session *session)
{
	return !session->n_requests && lease_client_is_vacant(&session->lease_client);
}

/* Whether its end makes room for a new session of this tenant, and not only for others of the
 * tenant it belongs to. */
static bool session_makes_room(const struct session *session,
			       const struct tenant *tenant)
{
	const struct control *control = session->sessions->control;
	const struct tenant *own = session->lease_client.tenant;

	if (own == tenant || tenant_full(tenant, TENANT_SESSIONS))
		return own == tenant;
	return tenants_over_reserve(control->tenants, own, TENANT_SESSIONS,
				    sessions_max(control));
}

/* Sessions that have lost their clients and own nothing do not keep new ones out: end one, that
 * which was fenced first.  Those whose keys are not dead yet would count further. */
static void sessions_make_room(struct sessions *sessions, const struct tenant *tenant)
{
	struct session *session = session_next(&sessions->fenced, 0, 0);

	for (; session; session = session_next(&sessions->fenced, session->fenced_ms,
					       session->lease_client.id)) {
		if (!session_is_vacant(session) || session->n_closing ||
		    !session_makes_room(session, tenant))
			continue;
		session_end(session, WIRE_STEP_YIELD,
			    "without leases, and a new session needs its slot");
		return;
	}
}

static int sessions_check_room(struct sessions *sessions, struct tenant *tenant)
{
	const struct tenants *tenants = sessions->control->tenants;
	uint32_t max = sessions_max(sessions->control);

	if (tenants_full(tenants, tenant, TENANT_SESSIONS, max))
		sessions_make_room(sessions, tenant);
	return tenants_check_room(tenants, tenant, TENANT_SESSIONS, max);
}

int session_open(struct connection *connection, const char *tenant_name,
		 const char *client)
{
	struct control *control = connection->control;
	struct sessions *sessions = control->sessions;
	struct tenant *tenant = tenants_find(control->tenants, tenant_name);
	struct session *session;
	int err = drain_check(&control->drain);

	if (err)
		return err;
	if (!tenant)
		return err_set(
			-EACCES,
			"there is no tenant \"%s\" on this server: it must be one "
			"that its configuration has a section for",
			tenant_name);
	err = sessions_check_room(sessions, tenant);
	if (err)
		return err;
	session = session_new(sessions);
	if (!session)
		return err_set(-ENOMEM, "no memory for a session");
	session_set_tenant(session, sessions->next_id, tenant);
	(void)snprintf(session->client, sizeof(session->client), "%s", client);
	session->opened_ms = clock_now_ms();
	(void)snprintf(session->address, sizeof(session->address), "%s",
		       connection->name);
	err = random_bytes(session->token, sizeof(session->token));
	if (!err)
		err = session_record(session);
	if (!err)
		err = session_insert(session);
	if (err) {
		session_unrecord(session);
		session_free(session);
		return err;
	}
	sessions->next_id++;
	session->told = control->drain.number;
	wire_session_move(&session->state, WIRE_STEP_OPEN);
	session_adopt(session, connection);
	control->counters.sessions_opened++;
	log_session(LOG_INFO, "session-opened", session, "a new session");
	timer_moved(session);
	return 0;
}

void session_bye(struct session *session, uint64_t bye_id)
{
	struct connection *connection = session_detach_connection(session);

	/* no other frame is handled; the reply tells that all keys are dead */
	connection->hello_pending = true;
	session_await(session, connection);
	session->waiting_id = bye_id;
	session_end(session, WIRE_STEP_BYE, "the client has ended it");
}

bool session_end_some(struct slice_work *work)
{
	struct session *session = container_of(work, struct session, work);
	struct lease_client *client = &session->lease_client;

	if (lease_client_leave(client, KEYS_PER_SLICE) ||
	    lease_client_fence(client, KEYS_PER_SLICE))
		return true;
	if (session->state == WIRE_SESSION_ENDED &&
	    lease_client_release(client, LEASES_PER_SLICE))
		return true;
	if (session->waiting_connection || session->state == WIRE_SESSION_ENDED)
		session_when_keys_dead(session);
	return false;
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
	if (strcmp(session->lease_client.tenant->name, tenant) != 0)
		return err_set(-EACCES,
			       "session %" PRIu64
			       " is of tenant %s, and only that can resume it",
			       id, session->lease_client.tenant->name);
	if (session->state == WIRE_SESSION_ACTIVE) {
		old = session_detach_connection(session);
		session_fence(session, WIRE_STEP_TAKE,
			      "the client is back on another connection");
		connection_close(old);
	}
	/* if several connections resume the session, the last one gets it */
	if (session->waiting_connection)
		connection_close(session->waiting_connection);
	session_await(session, connection);
	session->waiting_id = hello_id;
	connection->hello_pending = true;
	session_when_keys_dead(session);
	return 0;
}

void session_closed(void *, void *session_cookie)
{
	struct session_port *port = session_cookie;
	struct session *session = port->session;

	assert(port->n_closing > 0 && port->n_closing <= session->n_closing);
	session->n_closing--;
	session_port_closed(port);
	if (session->waiting_connection || session->state == WIRE_SESSION_ENDED)
		session_when_keys_dead(session);
}

static void session_fence_lost(struct session *session, const char *why)
{
	char text[160];

	(void)session_detach_connection(session);
	(void)snprintf(text, sizeof(text), "the control connection is lost: %s", why);
	session_fence(session, WIRE_STEP_LOSE, text);
}

void session_connection_lost(struct connection *connection, const char *why)
{
	struct session *awaited = connection->awaited;

	connection->closed = true;
	explicit_bzero(connection->secret, sizeof(connection->secret));
	if (connection->session)
		session_fence_lost(connection->session, why);
	if (!awaited)
		return;
	session_await(awaited, NULL);
	/* the grace time counts again */
	timer_moved(awaited);
}

void session_fence_active(struct session *session, enum wire_step step, const char *why)
{
	struct connection *connection = session_detach_connection(session);
	struct wire_msg *out;

	session_fence(session, step, why);
	out = control_message(connection->control, WIRE_TYPE_fenced, 0);
	connection_send(connection, out);
	connection_close(connection);
}

int sessions_kick(struct sessions *sessions, uint64_t id)
{
	struct session *session = sessions_find(sessions, id);
	struct connection *connection, *resuming;
	uint64_t hello_id;
	struct wire_msg *out;

	if (!session)
		return err_set(-ENOENT, "there is no session %" PRIu64, id);
	connection = session_detach_connection(session);
	resuming = session->waiting_connection;
	hello_id = session->waiting_id;
	session_await(session, NULL);
	session_end(session, WIRE_STEP_KICK, KICKED);
	if (resuming)
		connection_refuse(resuming, hello_id, REFUSAL_SESSION, -ESTALE, KICKED);
	if (!connection)
		return 0;
	out = control_message(sessions->control, WIRE_TYPE_closing, 0);
	out->closing.reason = WIRE_REASON_REVOKED;
	connection_send(connection, out);
	connection_close(connection);
	return 0;
}

void session_fence_silent(struct session *session)
{
	const struct connection *connection = session->connection;
	bool stalled = connection_stalled(session->connection);
	char text[80];

	(void)snprintf(text, sizeof(text), "%s for %" PRIu64 " ms",
		       stalled ? "the client has not read its answers"
			       : "no sign of life",
		       clock_now_ms() - session->heard_ms);
	if (stalled)
		connection_refused(connection->control, REFUSAL_UNREAD,
				   connection->name, text);
	session_fence_active(session, WIRE_STEP_SILENCE, text);
}
