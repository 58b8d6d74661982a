/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/session_channels.h"

#include <arpa/inet.h>
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
#include "rmemd/control/session.h"

/* A grant not used for so long makes room for another one. */
#define GRANT_UNUSED_MS 30000

enum channel_state { CHANNEL_GRANTED, CHANNEL_ADMITTED, CHANNEL_UP };

struct channel {
	struct list link; /* in session->channels */
	uint32_t number;
	unsigned endpoint;
	enum channel_state state;
	uint64_t granted_ms;
};

static struct channel *find(const struct session *session, uint32_t number)
{
	list_for_each(node, &session->channels) {
		struct channel *channel = container_of(node, struct channel, link);

		if (channel->number == number)
			return channel;
	}
	return NULL;
}

/* Forget one of which something may still be alive at its port: it is counted for the
 * tenant until that is closed. */
static void outlive(struct session *session, struct channel *channel)
{
	if (channel->state == CHANNEL_UP)
		session->n_connected--;
	session->n_channels--;
	session->ports[channel->endpoint].n_dying++;
	list_remove(&channel->link);
	free(channel);
}

static void uncount(struct session_port *port)
{
	port->session->holder.tenant->n_channels -= port->n_dying;
	port->n_dying = 0;
}

/* Forget one that is dead, or has never lived. */
static void forget(struct session *session, struct channel *channel)
{
	struct session_port *port = &session->ports[channel->endpoint];

	outlive(session, channel);
	port->n_dying--;
	session->holder.tenant->n_channels--;
}

void session_forget_channels(struct session *session)
{
	list_for_each_safe(node, &session->channels)
		forget(session, container_of(node, struct channel, link));
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++)
		uncount(&session->ports[i]);
}

static void forget_unused(struct session *session)
{
	uint64_t now_ms = clock_now_ms();

	list_for_each_safe(node, &session->channels) {
		struct channel *channel = container_of(node, struct channel, link);

		if (channel->state == CHANNEL_GRANTED &&
		    now_ms - channel->granted_ms >= GRANT_UNUSED_MS)
			forget(session, channel);
	}
}

/* Everywhere in the tenant: what nobody uses must not keep others from it. */
static void forget_unused_of(const struct sessions *sessions,
			     const struct tenant *tenant)
{
	list_for_each(node, &sessions->all) {
		struct session *session = container_of(node, struct session, all);

		if (session->holder.tenant == tenant)
			forget_unused(session);
	}
}

void session_port_closed(struct session_port *port)
{
	if (--port->n_closing == 0)
		uncount(port);
}

/* Its channels are forgotten. */
static void close_port(struct session *session, unsigned endpoint,
		       const struct lease_client_port *at)
{
	session->n_closing++;
	session->ports[endpoint].n_closing++;
	at->ops->session_close(at->session);
}

int session_open_port(struct session *session, unsigned endpoint)
{
	const struct endpoint *at =
		&session->sessions->control->endpoints->at[endpoint];
	struct lease_client_port *port = &session->holder.ports[endpoint];
	struct fabric_session *fabric;
	int err;

	if (port->session)
		return 0;
	err = at->ops->session_open(at->server, at->local, &session->ports[endpoint],
				    &fabric);
	if (err)
		return err;
	*port = (struct lease_client_port){
		.ops = at->ops,
		.session = fabric,
		.node = at->facts->node,
	};
	session->ports[endpoint].used = true;
	return 0;
}

void session_close_ports(struct session *session)
{
	struct lease_client_port ports[WIRE_ENDPOINTS_MAX];

	list_for_each_safe(node, &session->channels)
		outlive(session, container_of(node, struct channel, link));
	/* from here on nothing is exposed there */
	memcpy(ports, session->holder.ports, sizeof(ports));
	memset(session->holder.ports, 0, sizeof(session->holder.ports));
	lease_client_fence(&session->holder);
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++)
		if (ports[i].session)
			close_port(session, i, &ports[i]);
}

static void leave_port(struct session *session, unsigned endpoint)
{
	struct lease_client_port *at = &session->holder.ports[endpoint];
	const struct lease_client_port port = *at;

	if (!port.session)
		return;
	list_for_each_safe(node, &session->channels) {
		struct channel *channel = container_of(node, struct channel, link);

		if (channel->endpoint == endpoint)
			outlive(session, channel);
	}
	*at = (struct lease_client_port){ .ops = NULL };
	lease_client_leave(&session->holder, endpoint);
	close_port(session, endpoint, &port);
}

void sessions_leave(struct sessions *sessions, unsigned endpoint)
{
	list_for_each(node, &sessions->all)
		leave_port(container_of(node, struct session, all), endpoint);
}

int session_open_channel(struct session *session, unsigned endpoint,
			 uint32_t *ret_channel)
{
	const struct control *control = session->sessions->control;
	struct tenant *tenant = session->holder.tenant;
	struct channel *channel;
	int err;

	if (endpoint >= control->endpoints->n)
		return err_set(-EINVAL, "there is no endpoint %u", endpoint);
	if (session->n_channels >= control->config->channels_max)
		forget_unused(session);
	if (session->n_channels >= control->config->channels_max)
		return err_set(-EDQUOT,
			       "the session has %u channels and may have %" PRIu32
			       ", 1 more was asked for: close some, or raise [limits] "
			       "channels",
			       session->n_channels, control->config->channels_max);
	if (tenant_channels_full(tenant))
		forget_unused_of(session->sessions, tenant);
	err = tenant_check_channel(tenant);
	if (err)
		return err;
	if (session->next_channel == UINT32_MAX)
		return err_set(-EDQUOT, "the session has used up its channel numbers");
	channel = malloc(sizeof(*channel));
	if (!channel)
		return err_set(-ENOMEM, "no memory for a channel");
	err = session_open_port(session, endpoint);
	if (err) {
		free(channel);
		return err;
	}
	*channel = (struct channel){
		.number = ++session->next_channel,
		.endpoint = endpoint,
		.state = CHANNEL_GRANTED,
		.granted_ms = clock_now_ms(),
	};
	list_append(&session->channels, &channel->link);
	session->n_channels++;
	tenant->n_channels++;
	*ret_channel = channel->number;
	return 0;
}

void session_open_first(struct session *session, enum wire_fabric fabric,
			struct session_first *ret_first)
{
	const struct endpoints *endpoints = session->sessions->control->endpoints;
	struct session_first first = { .channel = 0 };

	for (unsigned i = 0; i < endpoints->n; i++) {
		enum wire_fabric kind = endpoints->at[i].facts->kind == FABRIC_VERBS
						? WIRE_FABRIC_VERBS
						: WIRE_FABRIC_TCP;

		if (kind != fabric)
			continue;
		/* the client asks again, and that is what is refused */
		if (tenant_channels_full(session->holder.tenant))
			break;
		first.endpoint = (uint8_t)i;
		if (session_open_channel(session, i, &first.channel))
			first.channel = 0;
		break;
	}
	*ret_first = first;
}

/* What has ended by itself was ended by its fabric, if the device released it. */
static int ended_check(const struct session *session, uint32_t number)
{
	for (unsigned i = 0; i < WIRE_ENDPOINTS_MAX; i++) {
		const struct lease_client_port *port = &session->holder.ports[i];
		int err = port->session
				  ? port->ops->channel_close(port->session, number)
				  : 0;

		if (err)
			return err;
	}
	return 0;
}

int session_close_channel(struct session *session, uint32_t number)
{
	struct channel *channel = find(session, number);
	const struct lease_client_port *port;
	int err = 0;

	if (!channel && number && number <= session->next_channel)
		return ended_check(session, number);
	if (!channel)
		return err_set(-EINVAL, "there is no channel %" PRIu32, number);
	port = &session->holder.ports[channel->endpoint];
	if (channel->state != CHANNEL_GRANTED)
		err = port->ops->channel_close(port->session, number);
	if (err)
		outlive(session, channel);
	else
		forget(session, channel);
	return err;
}

/* Whether the control connection comes from the address that the GID is. */
static bool gid_is_own(const struct session *session, const uint8_t gid[16])
{
	char text[sizeof(session->address)];
	/* address:port, an IPv6 address in brackets */
	bool bracket = session->address[0] == '[';
	struct fabric_address from, named;

	(void)snprintf(text, sizeof(text), "%s", session->address + bracket);
	text[strcspn(text, bracket ? "]" : ":")] = '\0';
	return !fabric_address_parse(text, &from) &&
	       inet_ntop(AF_INET6, gid, text, sizeof(text)) &&
	       !fabric_address_parse(text, &named) &&
	       !memcmp(&from, &named, sizeof(named));
}

int session_join_channel(struct session *session, uint32_t number,
			 const struct fabric_qp_info *theirs,
			 struct fabric_qp_info *ret_ours)
{
	const struct endpoints *endpoints = session->sessions->control->endpoints;
	struct channel *channel = find(session, number);
	struct fabric_qp_info end = *theirs;
	const struct endpoint *at;
	int err;

	if (!channel || channel->state != CHANNEL_GRANTED)
		return err_set(-EINVAL, "channel %" PRIu32 " is not there to be joined",
			       number);
	at = &endpoints->at[channel->endpoint];
	if (!(at->facts->flags & FABRIC_ENDPOINT_DIRECT))
		return err_set(-ENOTSUP, "endpoint %u has no channels that are joined",
			       channel->endpoint);
	channel->state = CHANNEL_ADMITTED;
	end.own = gid_is_own(session, end.gid);
	err = at->ops->channel_connect(session->holder.ports[channel->endpoint].session,
				       number, &end, ret_ours);
	if (!err)
		return 0;
	session->sessions->control->counters.channels_refused++;
	forget(session, channel);
	return err;
}

struct fabric_session *session_admit(struct session *session, unsigned endpoint,
				     const struct fabric_hello *hello,
				     const char **ret_why)
{
	static const uint8_t nobody[WIRE_TOKEN_BYTES];
	bool known = secret_equal(session ? session->token : nobody, hello->token,
				  WIRE_TOKEN_BYTES);
	struct channel *channel;

	*ret_why = "no session with this id and token";
	if (!session || !known)
		return NULL;
	channel = find(session, hello->channel);
	*ret_why = "a channel that was not granted";
	if (session->state != SESSION_ACTIVE || !channel)
		return NULL;
	*ret_why = "a channel that was granted for another endpoint";
	if (channel->endpoint != endpoint)
		return NULL;
	*ret_why = "a channel that is connected already";
	if (channel->state != CHANNEL_GRANTED)
		return NULL;
	channel->state = CHANNEL_ADMITTED;
	return session->holder.ports[endpoint].session;
}

static void log_channel(int level, const char *event, const struct session_port *port,
			uint32_t number, const char *text)
{
	const struct session *session = port->session;
	const struct endpoint *at =
		&session->sessions->control->endpoints->at[port - session->ports];

	log_event(level, event,
		  &(struct log_ctx){ .session = session->holder.id,
				     .peer = session->address,
				     .device = at->facts->device },
		  "channel %" PRIu32 " over %s%s%s", number, at->ops->name,
		  *text ? ": " : "", text);
}

void session_channel_up(void *session_cookie, uint32_t number)
{
	struct session_port *port = session_cookie;
	struct channel *channel = find(port->session, number);

	if (!channel || channel->state != CHANNEL_ADMITTED)
		return;
	channel->state = CHANNEL_UP;
	port->session->n_connected++;
	log_channel(LOG_DEBUG, "channel-up", port, number, "");
}

/* Where rdma_cm does not tell the client, or might not reach it: what takes the way from the
 * channel takes it from rdma_cm, and a client that waits for nothing but answers would wait
 * for ever. */
static bool is_told(const struct endpoint *at, const char *why)
{
	if (at->facts->flags & FABRIC_ENDPOINT_DIRECT)
		return true;
	return at->facts->kind == FABRIC_VERBS && *why;
}

static void tell_ended(const struct session_port *port, uint32_t number,
		       const char *why)
{
	const struct session *session = port->session;
	struct control *control = session->sessions->control;
	const struct endpoint *at = &control->endpoints->at[port - session->ports];
	struct wire_msg *out = &control->out;

	if (!session->connection || !is_told(at, why))
		return;
	out->type = WIRE_TYPE_channel_ended;
	out->id = 0;
	out->channel_ended.channel = number;
	connection_send(session->connection, out);
}

void session_channel_down(void *session_cookie, uint32_t number, const char *why)
{
	struct session_port *port = session_cookie;
	struct channel *channel = find(port->session, number);

	if (!channel)
		return;
	log_channel(*why ? LOG_INFO : LOG_DEBUG, "channel-down", port, number, why);
	tell_ended(port, number, why);
	forget(port->session, channel);
}
