/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests about the session itself and its channels. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "rmemd/control/handlers.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/session.h"

static int check_hello(const struct wire_hello *hello)
{
	if (hello->magic != WIRE_MAGIC)
		return err_set(-EPROTO, "a hello without rmem's magic");
	if (hello->version_min > WIRE_VERSION_MAX ||
	    hello->version_max < WIRE_VERSION_MIN)
		return err_set(
			-ENOTSUP,
			"the client speaks versions %u to %u, this server %d to %d",
			hello->version_min, hello->version_max, WIRE_VERSION_MIN,
			WIRE_VERSION_MAX);
	return 0;
}

/* The one place that says which tenant a client is: with auth = none it is the one that it
 * says it is. */
static const char *identify(const struct wire_hello *hello)
{
	return hello->tenant;
}

/* What is wrong with the client's end it hears when it asks for another channel. */
static void first_join(struct session *session, const struct wire_hello *hello,
		       struct session_first *first)
{
	struct fabric_qp_info end = { .qpn = 0 };

	if (!first->channel)
		return;
	WIRE_END_COPY(&end, hello);
	if (!session_join_channel(session, first->channel, &end, &end)) {
		first->end = end;
		return;
	}
	(void)session_close_channel(session, first->channel);
	first->channel = 0;
}

static int greet(struct connection *connection, const struct wire_hello *hello,
		 uint64_t id)
{
	struct sessions *sessions = connection->control->sessions;
	const char *tenant = identify(hello);
	struct session_first first;
	int err;

	err = check_hello(hello);
	if (err)
		return err;
	connection->version = hello->version_max < WIRE_VERSION_MAX ? hello->version_max
								    : WIRE_VERSION_MAX;
	if (hello->resume)
		return session_resume(sessions, connection, tenant, hello->resume,
				      hello->token, id);
	err = session_open(sessions, connection, tenant, hello->client);
	if (err)
		return err;
	session_open_first(connection->session, (enum wire_fabric)hello->channel,
			   &first);
	if (hello->qpn)
		first_join(connection->session, hello, &first);
	session_welcome(connection->session, id, false, &first);
	connection->ops->authenticated(connection);
	return 0;
}

int handle_hello(struct connection *connection, const struct wire_msg *msg,
		 struct wire_msg *out)
{
	int err = greet(connection, &msg->hello, msg->id);

	(void)out;
	if (err)
		connection_refuse(connection, msg->id, err, err_text());
	return HANDLER_LATER;
}

int handle_ping(struct connection *connection, const struct wire_msg *msg,
		struct wire_msg *out)
{
	(void)connection;
	(void)msg;
	out->type = WIRE_TYPE_ok;
	return HANDLER_ANSWER;
}

int handle_bye(struct connection *connection, const struct wire_msg *msg,
	       struct wire_msg *out)
{
	(void)out;
	session_bye(connection->session, msg->id);
	return HANDLER_LATER;
}

int handle_open_channel(struct connection *connection, const struct wire_msg *msg,
			struct wire_msg *out)
{
	const struct fabric_endpoint *facts;
	uint32_t channel;
	int err;

	err = session_open_channel(connection->session, msg->open_channel.endpoint,
				   &channel);
	if (err)
		return err;
	out->type = WIRE_TYPE_channel;
	out->channel.channel = channel;
	facts = connection->control->endpoints->at[msg->open_channel.endpoint].facts;
	out->channel.family = facts->address.family;
	memcpy(out->channel.address, facts->address.bytes,
	       sizeof(out->channel.address));
	out->channel.port = facts->address.port;
	return HANDLER_ANSWER;
}

int handle_close_channel(struct connection *connection, const struct wire_msg *msg,
			 struct wire_msg *out)
{
	int err =
		session_close_channel(connection->session, msg->close_channel.channel);

	if (err)
		return err;
	out->type = WIRE_TYPE_ok;
	return HANDLER_ANSWER;
}

int handle_join_channel(struct connection *connection, const struct wire_msg *msg,
			struct wire_msg *out)
{
	const struct wire_join_channel *theirs = &msg->join_channel;
	struct fabric_qp_info end = { .qpn = 0 };
	int err;

	WIRE_END_COPY(&end, theirs);
	err = session_join_channel(connection->session, theirs->channel, &end, &end);
	if (err)
		return err;
	out->type = WIRE_TYPE_joined;
	WIRE_END_COPY(&out->joined, &end);
	return HANDLER_ANSWER;
}
