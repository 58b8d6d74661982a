/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/request.h"

#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "base/log.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/session.h"
#include "wire/codec.h"

/* How a type is handled. */
struct request_type {
	request_handler *handle; /* NULL: it is started */
	request_checker *check;  /* NULL: there is nothing to check before */
	request_starter *start;
	unsigned flags;
};

#define ANSWERED(name, needs, flags) \
	[WIRE_TYPE_##name] = { handle_##name, NULL, NULL, flags },
#define STARTED(name, needs, flags) \
	[WIRE_TYPE_##name] = { NULL, NULL, start_##name, flags },
#define CHECKED(name, needs, flags) \
	[WIRE_TYPE_##name] = { NULL, check_##name, start_##name, flags },

static const struct request_type *type_find(enum wire_type type)
{
	static const struct request_type types[] = { REQUEST_TYPES(ANSWERED, STARTED,
								   CHECKED) };

	if (type >= sizeof(types) / sizeof(types[0]) ||
	    !(types[type].handle || types[type].start))
		return NULL;
	return &types[type];
}

/* ---- one request ---- */

static int request_start(struct session *session, const struct wire_msg *msg,
			 const struct request_type *type, unsigned flags)
{
	struct request *request;
	int err = type->check ? type->check(msg) : 0;

	if (!err)
		err = request_create(session, msg, flags, &request);
	if (err)
		return err;
	err = type->start(session, msg, &request->waiter);
	if (err)
		request_free(request);
	return err ? err : HANDLER_LATER;
}

static int request_do(struct session *session, const struct wire_msg *msg,
		      const struct request_type *type, unsigned flags)
{
	struct reply reply = { .id = msg->id, .type = msg->type };
	int result;

	result = type->start
			 ? request_start(session, msg, type, flags)
			 : type->handle(session, msg, &session->sessions->control->out);
	if (result == HANDLER_LATER || !(flags & REQUEST_REMEMBERED))
		return result;
	if (result < 0)
		reply.code = wire_code_of(result);
	request_remember(session, &reply, reply.code ? err_text() : NULL);
	return result;
}

static void request_failed(struct connection *connection, const struct wire_msg *msg,
			   int err)
{
	log_event(LOG_DEBUG, "request-failed",
		  &(struct log_ctx){ .peer = connection->name }, "%s: %s",
		  wire_type_name(msg->type), err_text());
	connection_send_error(connection, msg->id, err, err_text());
}

static void request_handle(struct session *session, const struct wire_msg *msg,
			   const struct request_type *type)
{
	struct connection *connection = session->connection;
	struct wire_msg *reply = &session->sessions->control->out;
	/* keys end with the connection: a client that resumes attaches by id, for new keys */
	bool by_id = msg->type == WIRE_TYPE_attach && msg->attach.lease;
	unsigned flags = by_id ? 0 : type->flags;
	int result = request_begin(session, msg, flags);

	if (result == REQUEST_NEW)
		result = request_do(session, msg, type, flags);
	if (result == HANDLER_OK) {
		connection_send_ok(connection, msg->id);
	} else if (result == HANDLER_REPLY) {
		reply->id = msg->id;
		connection_send(connection, reply);
	} else if (result < 0) {
		request_failed(connection, msg, result);
	}
}

/* ---- frames ---- */

/* -EPROTO: the protocol does not allow this message now.  type: NULL for hello alone */
static int check_protocol(const struct connection *connection,
			  const struct wire_msg *msg, const struct request_type *type)
{
	bool greets = msg->type == WIRE_TYPE_hello;
	const char *name = wire_type_name(msg->type);

	if (!greets && !type)
		return err_set(-EPROTO, "%s is not a request", name);
	if (msg->id == 0)
		return err_set(-EPROTO, "%s with the id 0, which is for events", name);
	if (connection->session && greets)
		return err_set(-EPROTO, "a second hello");
	if (!connection->session && !greets)
		return err_set(-EPROTO, "%s before the hello", name);
	return 0;
}

/* Answer a request of a later version; its client goes on without it.  False: it is none. */
static bool refuse_unknown(struct connection *connection, const uint8_t *frame,
			   size_t bytes)
{
	unsigned type = wire_frame_type(frame);
	uint64_t id = wire_frame_id(frame, bytes);
	char text[64];

	if (!connection->session || id == 0 || type >= WIRE_TYPE_error ||
	    wire_type_name(type) || wire_frame_reserved(frame))
		return false;
	session_heard(connection->session, connection->silent_ms);
	(void)snprintf(text, sizeof(text), "this server does not know request 0x%02x",
		       type);
	connection_send_code(connection, id, WIRE_CODE_unknown, text);
	return true;
}

void dispatch_frame(struct connection *connection, const uint8_t *frame, size_t bytes)
{
	struct wire_msg *msg = &connection->control->in;
	const struct request_type *type = NULL;
	int err = wire_decode(frame, bytes, msg);

	if (err && refuse_unknown(connection, frame, bytes))
		return;
	if (!err) {
		type = type_find(msg->type);
		err = check_protocol(connection, msg, type);
	}
	if (err) {
		connection_refuse(connection, wire_frame_id(frame, bytes),
				  REFUSAL_PROTOCOL, -EPROTO, err_text());
		return;
	}
	connection->control->counters.requests++;
	if (!type) {
		handle_hello(connection, msg);
		return;
	}
	session_heard(connection->session, connection->silent_ms);
	request_handle(connection->session, msg, type);
}
