/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests about the session itself and its channels. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/random.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/endpoint_address.h"
#include "rmemd/control/session.h"
#include "rmemd/control/request.h"

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
	if (hello->channel > WIRE_FABRIC_VERBS)
		return err_set(-EINVAL, "there is no fabric %u", hello->channel);
	return 0;
}

static int open_or_resume(struct connection *connection, const struct wire_hello *hello,
			  uint64_t id)
{
	const char *tenant = hello->tenant;
	int err = check_hello(hello);

	if (!err)
		err = connection->ops->identify(connection, tenant);
	if (!err)
		err = random_bytes(connection->secret, sizeof(connection->secret));
	if (err)
		return err;
	connection->version = hello->version_max < WIRE_VERSION_MAX ? hello->version_max
								    : WIRE_VERSION_MAX;
	connection->capabilities = hello->capabilities & WIRE_CAPABILITIES;
	if (hello->resume)
		return session_resume(connection, tenant, hello->resume, hello->token,
				      id);
	err = session_open(connection, tenant, hello->client);
	if (!err)
		session_opened(connection->session, id,
			       (enum wire_fabric)hello->channel);
	return err;
}

static enum refusal refusal_of(int err)
{
	switch (err) {
	case -EACCES:
		return REFUSAL_TENANT;
	case -ESTALE:
		return REFUSAL_SESSION;
	case -ESHUTDOWN:
		return REFUSAL_DRAINING;
	case -EDQUOT:
	case -ENOMEM:
	case -ENOSPC:
		return REFUSAL_QUOTA;
	default:
		return REFUSAL_PROTOCOL;
	}
}

void handle_hello(struct connection *connection, const struct wire_msg *msg)
{
	int err;

	/* The client gave up, as while no process served the socket, and has connected again:
	 * its session is resumed there, once. */
	if (connection->ops->abandoned(connection)) {
		log_event(LOG_DEBUG, "connection-abandoned",
			  &(struct log_ctx){ .peer = connection->name },
			  "the client closed it before its hello was handled");
		connection_close(connection);
		return;
	}
	err = open_or_resume(connection, &msg->hello, msg->id);
	if (err)
		connection_refuse(connection, msg->id, refusal_of(err), err,
				  err_text());
}

int handle_ping(struct session *, const struct wire_msg *, struct wire_msg *)
{
	return HANDLER_OK;
}

int handle_bye(struct session *session, const struct wire_msg *msg, struct wire_msg *)
{
	session_bye(session, msg->id);
	return HANDLER_LATER;
}

int handle_open_channel(struct session *session, const struct wire_msg *msg,
			struct wire_msg *ret_reply)
{
	const struct endpoints *endpoints = &session->sessions->control->endpoints;
	unsigned endpoint = msg->open_channel.endpoint;
	struct wire_channel *reply = &ret_reply->channel;
	struct fabric_address address;
	int err = session_open_channel(session, endpoint, &reply->channel);

	if (err)
		return err;
	address = endpoint_address(&endpoints->at[endpoint],
				   &session->connection->address);
	ret_reply->type = WIRE_TYPE_channel;
	reply->family = address.family;
	memcpy(reply->address, address.bytes, sizeof(reply->address));
	reply->port = address.port;
	return HANDLER_REPLY;
}

int handle_close_channel(struct session *session, const struct wire_msg *msg,
			 struct wire_msg *)
{
	return session_close_channel(session, msg->close_channel.channel);
}

int handle_join_channel(struct session *session, const struct wire_msg *msg,
			struct wire_msg *)
{
	const struct wire_join_channel *theirs = &msg->join_channel;
	struct fabric_qp_info end = { .qpn = 0 };
	int err;

	WIRE_END_COPY(&end, theirs);
	err = session_join_channel(session, theirs->channel, &end, msg->id);
	return err ? err : HANDLER_LATER;
}
