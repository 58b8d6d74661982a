/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/session.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/random.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/control.h"
#include "rmemd/control/endpoint_address.h"
#include "tls/admission.h"

/* A granted channel that is not connected in this time is refused, and dropped when a limit is
 * reached. */
#define GRANT_UNUSED_MS 30000
struct channel {
	struct list link;       /* in session->channels */
	struct list in_granted; /* in tenant->granted, while WIRE_CHANNEL_GRANTED */
	struct session *session;
	uint32_t number;
	unsigned endpoint;
	enum wire_channel_state state;
	uint64_t granted_ms;
	/* the join_channel that waits until the channel is connected; 0: none */
	uint64_t join_id;
};

static struct channel *find_channel(const struct session *session, uint32_t number)
{
	list_for_each_entry(struct channel, channel, &session->channels, link) {
		if (channel->number == number)
			return channel;
	}
	return NULL;
}

/* Remove the channel from the session while its queue pair may still exist.  The tenant is charged
 * for it (n_dying) until the fabric_session of its port is closed. */
static void channel_forget_dying(struct session *session, struct channel *channel,
				 enum wire_step step)
{
	if (channel->state == WIRE_CHANNEL_UP)
		session->n_connected--;
	wire_channel_move(&channel->state, step);
	session->n_channels--;
	session->ports[channel->endpoint].n_dying++;
	list_remove(&channel->link);
	list_remove(&channel->in_granted);
	free(channel);
	assert(session->n_connected <= session->n_channels);
	assert(list_empty(&session->channels) == !session->n_channels);
}

static void port_charge(const struct session_port *port)
{
	struct tenant *tenant = port->session->lease_client.tenant;

	tenant->n_channels++;
	tenant->n_channels_at[port - port->session->ports]++;
}

static void port_uncharge(const struct session_port *port, unsigned n_channels)
{
	struct tenant *tenant = port->session->lease_client.tenant;

	assert(n_channels <= tenant->n_channels_at[port - port->session->ports]);
	tenant->n_channels -= n_channels;
	tenant->n_channels_at[port - port->session->ports] -= n_channels;
}

static void port_uncharge_dying(struct session_port *port)
{
	port_uncharge(port, port->n_dying);
	port->n_dying = 0;
}

/* Remove a channel that is dead or was never connected. */
static void channel_drop(struct session *session, struct channel *channel,
			 enum wire_step step)
{
	struct session_port *port = &session->ports[channel->endpoint];

	channel_forget_dying(session, channel, step);
	port->n_dying--;
	port_uncharge(port, 1);
}

void session_drop_channels(struct session *session)
{
	list_for_each_entry_safe(struct channel, channel, &session->channels, link)
		channel_drop(session, channel, WIRE_STEP_LEAVE);
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++)
		port_uncharge_dying(&session->ports[i]);
}

static void channels_drop_unused(struct session *session)
{
	uint64_t now_ms = clock_now_ms();

	list_for_each_entry_safe(struct channel, channel, &session->channels, link) {
		if (channel->state == WIRE_CHANNEL_GRANTED &&
		    now_ms - channel->granted_ms >= GRANT_UNUSED_MS)
			channel_drop(session, channel, WIRE_STEP_EXPIRE);
	}
}

/* Drop unused grants in all sessions of the tenant, as its limit is of all of them together. */
static void tenant_drop_unused(const struct tenant *tenant)
{
	uint64_t now_ms = clock_now_ms();
	struct channel *channel;

	while ((channel = list_first(&tenant->granted, struct channel, in_granted)) &&
	       now_ms - channel->granted_ms >= GRANT_UNUSED_MS)
		channel_drop(channel->session, channel, WIRE_STEP_EXPIRE);
}

static void channel_refused(struct control *control, enum refusal reason)
{
	control->counters.channels_refused++;
	control->counters.refused[reason]++;
}

/* A granted channel is being connected. */
static void channel_set_admitted(struct channel *channel)
{
	wire_channel_move(&channel->state, WIRE_STEP_ADMIT);
	list_remove(&channel->in_granted);
}

void session_port_closed(struct session_port *port)
{
	if (--port->n_closing == 0)
		port_uncharge_dying(port);
}

/* Close the fabric_session of a port whose channels were removed. */
static void session_close_port(struct session *session, unsigned endpoint,
			       const struct lease_client_port *at)
{
	session->n_closing++;
	session->ports[endpoint].n_closing++;
	at->ops->session_close(at->session);
}

void session_extend_ports(const struct session *session)
{
	uint64_t until_ms = session->heard_ms +
			    session_silence_max_ms(session->sessions->control->config);

	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++) {
		const struct lease_client_port *port = &session->lease_client.ports[i];

		if (port->session && port->ops->session_extend)
			port->ops->session_extend(port->session, until_ms * NS_PER_MS);
	}
}

int session_open_port(struct session *session, unsigned endpoint)
{
	const struct endpoint *at = &session->sessions->control->endpoints.at[endpoint];
	struct lease_client_port *port = &session->lease_client.ports[endpoint];
	struct fabric_session *fabric;
	int err;

	if (port->session)
		return 0;
	/* keys of the fabric_session before must not count as keys of this one */
	if (session->lease_client.leaving & (1u << endpoint))
		(void)lease_client_leave(&session->lease_client, UINT_MAX);
	err = at->ops->session_open(at->server, at->local, &session->ports[endpoint],
				    &fabric);
	if (err)
		return err;
	*port = (struct lease_client_port){
		.ops = at->ops,
		.session = fabric,
		.node = at->info->node,
	};
	session->ports[endpoint].used = true;
	session_extend_ports(session);
	return 0;
}

void session_close_ports(struct session *session)
{
	struct lease_client_port ports[WIRE_ENDPOINTS_MAX];

	list_for_each_entry_safe(struct channel, channel, &session->channels, link)
		channel_forget_dying(session, channel, WIRE_STEP_LEAVE);
	/* from here on nothing is registered at these ports */
	memcpy(ports, session->lease_client.ports, sizeof(ports));
	memset(session->lease_client.ports, 0, sizeof(session->lease_client.ports));
	lease_client_begin_fence(&session->lease_client);
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++)
		if (ports[i].session)
			session_close_port(session, i, &ports[i]);
}

static void session_leave_port(struct session *session, unsigned endpoint)
{
	struct lease_client_port *at = &session->lease_client.ports[endpoint];
	const struct lease_client_port port = *at;

	if (!port.session)
		return;
	list_for_each_entry_safe(struct channel, channel, &session->channels, link) {
		if (channel->endpoint == endpoint)
			channel_forget_dying(session, channel, WIRE_STEP_LEAVE);
	}
	*at = (struct lease_client_port){ .ops = NULL };
	lease_client_begin_leave(&session->lease_client, endpoint);
	session_close_port(session, endpoint, &port);
	slices_start(&session->sessions->control->slices,
		     &session->lease_client.tenant->slices, &session->work);
}

void sessions_leave_endpoint(struct sessions *sessions, unsigned endpoint)
{
	list_for_each_entry(struct session, session, &sessions->all, all)
		session_leave_port(session, endpoint);
}

/* Whether the tenant may have no channel more at the endpoint. */
static bool channels_full(const struct session *session, unsigned endpoint)
{
	const struct control *control = session->sessions->control;

	return tenants_full(control->tenants, session->lease_client.tenant, endpoint,
			    control->endpoints.at[endpoint].channels_max);
}

static int check_channel(const struct session *session, unsigned endpoint)
{
	const struct control *control = session->sessions->control;
	struct tenant *tenant = session->lease_client.tenant;

	if (channels_full(session, endpoint))
		tenant_drop_unused(tenant);
	return tenants_check_room(control->tenants, tenant, endpoint,
				  control->endpoints.at[endpoint].channels_max);
}

int session_open_channel(struct session *session, unsigned endpoint,
			 uint32_t *ret_channel)
{
	const struct control *control = session->sessions->control;
	struct channel *channel;
	int err;

	if (endpoint >= control->endpoints.n)
		return err_set(-EINVAL, "there is no endpoint %u", endpoint);
	if (session->n_channels >= control->config->channels_max)
		channels_drop_unused(session);
	if (session->n_channels >= control->config->channels_max)
		return err_set(-EDQUOT,
			       "the session has %u channels and may have %" PRIu32
			       ", 1 more was asked for: close some, or raise [limits] "
			       "channels",
			       session->n_channels, control->config->channels_max);
	err = check_channel(session, endpoint);
	if (err)
		return err;
	if (session->next_channel == session->channels_end)
		err = session_reserve_channels(session);
	if (err)
		return err;
	channel = malloc(sizeof(*channel));
	if (!channel)
		return err_set(-ENOMEM, "no memory for a channel");
	err = session_open_port(session, endpoint);
	if (err) {
		free(channel);
		return err;
	}
	*channel = (struct channel){
		.session = session,
		.number = ++session->next_channel,
		.endpoint = endpoint,
		.granted_ms = clock_now_ms(),
	};
	wire_channel_move(&channel->state, WIRE_STEP_OPEN);
	list_append(&session->channels, &channel->link);
	list_append(&session->lease_client.tenant->granted, &channel->in_granted);
	session->n_channels++;
	port_charge(&session->ports[endpoint]);
	*ret_channel = channel->number;
	/* cppcheck-suppress memleak ; the session's list has it */
	return 0;
}

uint32_t session_open_first(struct session *session, enum wire_fabric fabric,
			    uint8_t *ret_endpoint)
{
	const struct endpoints *endpoints = &session->sessions->control->endpoints;
	unsigned i = endpoints_nearest(endpoints, (enum fabric_kind)fabric,
				       &session->connection->reached);
	uint32_t channel;

	/* the client learns why when it asks for a channel */
	if (i == endpoints->n || channels_full(session, i) ||
	    session_open_channel(session, i, &channel))
		return 0;
	*ret_endpoint = (uint8_t)i;
	return channel;
}

/* The client closes a channel that has ended already.  -EIO: at some port the session has a queue
 * pair that the device does not release. */
static int closed_channel_status(const struct session *session, uint32_t number)
{
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++) {
		const struct lease_client_port *port = &session->lease_client.ports[i];
		int err = port->session
				  ? port->ops->channel_close(port->session, number)
				  : 0;

		if (err)
			return err;
	}
	return 0;
}

/* The channel is connected: answer the request that waits for it. */
static void join_reply(struct session *session, struct channel *channel,
		       const struct fabric_qp_info *ours)
{
	struct connection *connection = session->connection;
	uint64_t id = channel->join_id;
	struct wire_msg *out;

	channel->join_id = 0;
	if (!connection)
		return;
	out = control_message(connection->control, WIRE_TYPE_joined, id);
	WIRE_END_COPY(&out->joined, ours);
	connection_send(connection, out);
}

static void join_fail(struct session *session, struct channel *channel, int err,
		      const char *text)
{
	struct connection *connection = session->connection;
	uint64_t id = channel->join_id;

	channel->join_id = 0;
	if (id && connection)
		connection_send_error(connection, id, err, text);
}

int session_close_channel(struct session *session, uint32_t number)
{
	struct channel *channel = find_channel(session, number);
	const struct lease_client_port *port;
	int err = 0;

	if (!channel && number && number <= session->next_channel)
		return closed_channel_status(session, number);
	if (!channel)
		return err_set(-EINVAL, "there is no channel %" PRIu32, number);
	port = &session->lease_client.ports[channel->endpoint];
	if (channel->state != WIRE_CHANNEL_GRANTED)
		err = port->ops->channel_close(port->session, number);
	join_fail(session, channel, -ESTALE, "the channel was closed");
	if (err)
		channel_forget_dying(session, channel, WIRE_STEP_CLOSE);
	else
		channel_drop(session, channel, WIRE_STEP_CLOSE);
	return err;
}

/* Whether the GID is the address that the control connection comes from. */
static bool gid_is_own(const struct session *session, const uint8_t gid[16])
{
	const struct fabric_address *address = &session->connection->address;
	uint8_t own[16];

	fabric_address_to_gid(address, own);
	return address->family && memcmp(own, gid, sizeof(own)) == 0;
}

int session_join_channel(struct session *session, uint32_t number,
			 const struct fabric_qp_info *theirs, uint64_t id)
{
	const struct endpoints *endpoints = &session->sessions->control->endpoints;
	struct channel *channel = find_channel(session, number);
	struct fabric_qp_info end = *theirs;
	const struct endpoint *at;
	int err;

	if (!channel || channel->state != WIRE_CHANNEL_GRANTED)
		return err_set(-EINVAL, "channel %" PRIu32 " is not there to be joined",
			       number);
	at = &endpoints->at[channel->endpoint];
	if (!(at->info->flags & FABRIC_ENDPOINT_DIRECT))
		return err_set(-ENOTSUP, "endpoint %u has no channels that are joined",
			       channel->endpoint);
	channel_set_admitted(channel);
	end.gid_verified = gid_is_own(session, end.gid);
	channel->join_id = id;
	err = at->ops->channel_connect(
		session->lease_client.ports[channel->endpoint].session, number, &end);
	if (!err)
		return 0;
	channel_refused(session->sessions->control, REFUSAL_CHANNEL_JOIN);
	channel_drop(session, channel, WIRE_STEP_BREAK);
	return err;
}

void session_channel_connected(void *, void *session_cookie, uint32_t number, int err,
			       const char *text, const struct fabric_qp_info *ours)
{
	struct session_port *port = session_cookie;
	struct session *session = port->session;
	struct channel *channel = find_channel(session, number);

	if (!channel || !channel->join_id)
		return;
	if (!err) {
		join_reply(session, channel, ours);
		return;
	}
	channel_refused(session->sessions->control, REFUSAL_CHANNEL_JOIN);
	join_fail(session, channel, err, text);
	channel_drop(session, channel, WIRE_STEP_BREAK);
}

/* ---- admission ---- */

/* Whether the channel comes from the address of the control connection, or from another one that
 * the client has named: over RDMA, or from a host with several addresses, that is common. */
static bool comes_from_client(const struct session *session, struct fabric_hello *hello)
{
	uint8_t origin[ADMISSION_ORIGIN_BYTES], gid[16];

	if (!hello->peer.family)
		return false;
	fabric_address_to_gid(&hello->peer, gid);
	hello->peer_verified = gid_is_own(session, gid);
	if (hello->peer_verified)
		return true;
	return !admission_origin(session->connection->secret, hello->session,
				 hello->channel, gid, origin) &&
	       secret_equal(origin, hello->origin, sizeof(origin));
}

/* -EACCES */
static int check_address(const struct session *session, const struct endpoint *at,
			 struct fabric_hello *hello)
{
	const struct config *config = session->sessions->control->config;
	bool tcp = at->info->kind == FABRIC_TCP;
	char peer[FABRIC_ADDRESS_TEXT], own[FABRIC_ADDRESS_TEXT];

	if (comes_from_client(session, hello) ||
	    (tcp && !config_tcp_checks_address(config)))
		return 0;
	return err_set(-EACCES, "a channel from %s of a client at %s%s",
		       fabric_address_host(&hello->peer, peer),
		       fabric_address_host(&session->connection->address, own),
		       tcp ? ", which [tcp] check_address of the server forbids: is a "
			     "NAT with several addresses between them?"
			   : "");
}

static int refuse(int err, const char *why, enum refusal reason,
		  enum refusal *ret_reason)
{
	*ret_reason = reason;
	return err_set(err, "%s", why);
}

/* Whether there is the session, and the token is the channel's: who has that may learn what else is
 * wrong. */
static int check_token(const struct session *session, const struct fabric_hello *hello)
{
	static const uint8_t nobody[ADMISSION_SECRET_BYTES];
	const struct connection *connection = session ? session->connection : NULL;
	uint8_t token[ADMISSION_BYTES];
	int err;

	_Static_assert((int)ADMISSION_SECRET_BYTES == (int)WIRE_SECRET_BYTES,
		       "the secret of a welcome admits channels");
	err = admission_token(connection ? connection->secret : nobody, hello->session,
			      hello->channel, token);
	if (err)
		return err;
	if (!secret_equal(token, hello->token, sizeof(token)) || !connection)
		return err_set(-EACCES, "no session with this id and token");
	return 0;
}

static int check_channel_state(const struct channel *channel, unsigned endpoint,
			       enum refusal *ret_reason)
{
	if (channel->endpoint != endpoint)
		return refuse(-EINVAL,
			      "a channel that was granted for another endpoint",
			      REFUSAL_CHANNEL_NUMBER, ret_reason);
	if (channel->state != WIRE_CHANNEL_GRANTED)
		return refuse(-EINVAL, "a channel that is connected already",
			      REFUSAL_CHANNEL_NUMBER, ret_reason);
	if (clock_now_ms() - channel->granted_ms >= GRANT_UNUSED_MS)
		return refuse(-ESTALE, "a channel that was granted too long ago",
			      REFUSAL_CHANNEL_LATE, ret_reason);
	return 0;
}

/* Whether the hello admits its channel. */
static int admission_check(const struct session *session, unsigned endpoint,
			   struct fabric_hello *hello, enum refusal *ret_reason)
{
	const struct channel *channel;
	int err = check_token(session, hello);

	*ret_reason = REFUSAL_CHANNEL_TOKEN;
	if (err)
		return err;
	channel = find_channel(session, hello->channel);
	if (!channel)
		return refuse(-ESTALE, "a channel that was not granted, or has ended",
			      REFUSAL_CHANNEL_NUMBER, ret_reason);
	*ret_reason = REFUSAL_CHANNEL_ADDRESS;
	err = check_address(session,
			    &session->sessions->control->endpoints.at[endpoint], hello);
	return err ? err : check_channel_state(channel, endpoint, ret_reason);
}

/* The line is of a tenant only if the peer has the session's token: else anyone could use up the
 * tenant's lines. */
static void admission_refused(struct control *control, const struct session *session,
			      unsigned endpoint, const struct fabric_hello *hello,
			      enum refusal reason)
{
	char peer[FABRIC_ADDRESS_TEXT];
	bool known = reason != REFUSAL_CHANNEL_TOKEN;

	channel_refused(control, reason);
	log_event(LOG_NOTICE, "channel-refused",
		  &(struct log_ctx){
			  .session = hello->session,
			  .peer = fabric_address_host(&hello->peer, peer),
			  .device = control->endpoints.at[endpoint].info->device,
			  .tenant = known ? session->lease_client.tenant->name : NULL },
		  "%s", err_text());
}

int sessions_admit(struct sessions *sessions, unsigned endpoint,
		   struct fabric_hello *hello, struct fabric_session **ret_session)
{
	struct session *session = sessions_find(sessions, hello->session);
	enum refusal reason;
	int err = admission_check(session, endpoint, hello, &reason);

	if (err) {
		admission_refused(sessions->control, session, endpoint, hello, reason);
		return err;
	}
	channel_set_admitted(find_channel(session, hello->channel));
	*ret_session = session->lease_client.ports[endpoint].session;
	return 0;
}

int session_channel_key(void *, void *session_cookie, uint32_t channel,
			uint8_t ret_key[FABRIC_TLS_KEY_BYTES])
{
	const struct session_port *port = session_cookie;
	const struct session *session = port->session;

	if (!session->connection)
		return err_set(-ESTALE, "the session is fenced");
	return admission_key(session->connection->secret, session->lease_client.id,
			     channel, ret_key);
}

static void log_channel(int level, const char *event, const struct session_port *port,
			uint32_t number, const char *text)
{
	const struct session *session = port->session;
	const struct endpoint *at =
		&session->sessions->control->endpoints.at[port - session->ports];

	log_event(level, event,
		  &(struct log_ctx){ .session = session->lease_client.id,
				     .peer = session->address,
				     .device = at->info->device,
				     .tenant = session->lease_client.tenant->name },
		  "channel %" PRIu32 " over %s%s%s", number, at->ops->name,
		  *text ? ": " : "", text);
}

void session_channel_up(void *, void *session_cookie, uint32_t number)
{
	struct session_port *port = session_cookie;
	struct channel *channel = find_channel(port->session, number);

	if (!channel || channel->state != WIRE_CHANNEL_ADMITTED)
		return;
	wire_channel_move(&channel->state, WIRE_STEP_CONNECT);
	port->session->n_connected++;
	log_channel(LOG_DEBUG, "channel-up", port, number, "");
}

/* Whether the client is told over the control connection: the channel is direct, without rdma_cm;
 * or it failed, and the fault of the network may also stop rdma_cm's disconnect.  A client that
 * only waits for completions would wait for ever. */
static bool client_is_notified(const struct endpoint *at, const char *why)
{
	if (at->info->flags & FABRIC_ENDPOINT_DIRECT)
		return true;
	return at->info->kind == FABRIC_VERBS && *why;
}

static void send_channel_ended(const struct session_port *port, uint32_t number,
			       const char *why)
{
	const struct session *session = port->session;
	struct control *control = session->sessions->control;
	const struct endpoint *at = &control->endpoints.at[port - session->ports];
	struct wire_msg *out;

	if (!session->connection || !client_is_notified(at, why))
		return;
	out = control_message(control, WIRE_TYPE_channel_ended, 0);
	out->channel_ended.channel = number;
	connection_send(session->connection, out);
}

static bool endpoint_is_tls(const struct session_port *port)
{
	const struct session *session = port->session;
	const struct endpoints *endpoints = &session->sessions->control->endpoints;

	return endpoints->at[port - session->ports].info->flags & FABRIC_ENDPOINT_TLS;
}

void session_channel_down(void *, void *session_cookie, uint32_t number,
			  const char *why)
{
	struct session_port *port = session_cookie;
	struct channel *channel = find_channel(port->session, number);

	if (!channel || channel->state == WIRE_CHANNEL_GRANTED)
		return;
	/* where the handshake of TLS comes before a channel is up, it has failed */
	if (channel->state != WIRE_CHANNEL_UP && endpoint_is_tls(port) && *why)
		channel_refused(port->session->sessions->control, REFUSAL_CHANNEL_TLS);
	log_channel(*why ? LOG_INFO : LOG_DEBUG, "channel-down", port, number, why);
	send_channel_ended(port, number, why);
	channel_drop(port->session, channel, WIRE_STEP_BREAK);
}
