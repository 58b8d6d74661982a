/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/session.h"
#include "wire/codec.h"

#define ANSWERED(name, flags) [WIRE_TYPE_##name] = { .handle = handle_##name },
#define STARTED(name, flags) [WIRE_TYPE_##name] = { .start = start_##name },

static const struct {
	request_handler *handle;
	request_starter *start;
} types[] = { REQUEST_TYPES(ANSWERED, STARTED) };

static bool is_request(enum wire_type type)
{
	return type == WIRE_TYPE_hello || (type < sizeof(types) / sizeof(types[0]) &&
					   (types[type].handle || types[type].start));
}

/* -EPROTO: the protocol does not allow this message now. */
static int check_protocol(const struct connection *connection,
			  const struct wire_msg *msg)
{
	const char *name = wire_type_name(msg->type);

	if (!is_request(msg->type))
		return err_set(-EPROTO, "%s is not a request", name);
	if (msg->id == 0)
		return err_set(-EPROTO, "%s with the id 0, which is for events", name);
	if (connection->session && msg->type == WIRE_TYPE_hello)
		return err_set(-EPROTO, "a second hello");
	if (!connection->session && msg->type != WIRE_TYPE_hello)
		return err_set(-EPROTO, "%s before the hello", name);
	return 0;
}

static int start_request(struct session *session, const struct wire_msg *msg)
{
	struct request *request;
	int err = check_started(msg);

	if (!err)
		err = request_create(session, msg, &request);
	if (err)
		return err;
	err = types[msg->type].start(session, msg, &request->waiter);
	if (err)
		request_free(request);
	return err ? err : HANDLER_LATER;
}

static void handle_request(struct session *session, const struct wire_msg *msg)
{
	struct connection *connection = session->connection;
	struct wire_msg *reply = &connection->control->out;
	int result = request_begin(session, msg);

	if (result == REQUEST_NEW) {
		result = types[msg->type].start
				 ? start_request(session, msg)
				 : types[msg->type].handle(session, msg, reply);
		if (result != HANDLER_LATER)
			request_end(session, msg, result);
	}
	if (result == HANDLER_OK) {
		connection_send_ok(connection, msg->id);
	} else if (result == HANDLER_REPLY) {
		reply->id = msg->id;
		connection_send(connection, reply);
	} else if (result < 0) {
		log_event(LOG_DEBUG, "request-failed",
			  &(struct log_ctx){ .peer = connection->name }, "%s: %s",
			  wire_type_name(msg->type), err_text());
		connection_send_error(connection, msg->id, result, err_text());
	}
}

/* A frame is read some time after it arrived if the loop is busy or was stopped. */
static uint64_t silent_ms(struct connection *connection)
{
	return connection->ops->silent_ms ? connection->ops->silent_ms(connection) : 0;
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
	session_heard(connection->session, silent_ms(connection));
	(void)snprintf(text, sizeof(text), "this server does not know request 0x%02x",
		       type);
	connection_send_code(connection, id, WIRE_CODE_unknown, text);
	return true;
}

void dispatch_frame(struct connection *connection, const uint8_t *frame, size_t bytes)
{
	struct wire_msg *msg = &connection->control->in;

	if (refuse_unknown(connection, frame, bytes))
		return;
	if (wire_decode(frame, bytes, msg) || check_protocol(connection, msg)) {
		connection_refuse(connection, wire_frame_id(frame, bytes),
				  REFUSAL_PROTOCOL, -EPROTO, err_text());
		return;
	}
	connection->control->counters.requests++;
	if (msg->type == WIRE_TYPE_hello) {
		handle_hello(connection, msg);
		return;
	}
	session_heard(connection->session, silent_ms(connection));
	handle_request(connection->session, msg);
}
