/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/dispatch.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "rmemd/control/handlers.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/session_requests.h"
#include "rmemd/control/session.h"
#include "wire/codec.h"

static handler *const handlers[] = {
	[WIRE_TYPE_hello] = handle_hello,
	[WIRE_TYPE_open_channel] = handle_open_channel,
	[WIRE_TYPE_close_channel] = handle_close_channel,
	[WIRE_TYPE_join_channel] = handle_join_channel,
	[WIRE_TYPE_allocate] = handle_allocate,
	[WIRE_TYPE_free] = handle_free,
	[WIRE_TYPE_attach] = handle_attach,
	[WIRE_TYPE_detach] = handle_detach,
	[WIRE_TYPE_renew] = handle_renew,
	[WIRE_TYPE_rename] = handle_rename,
	[WIRE_TYPE_resize] = handle_resize,
	[WIRE_TYPE_remove] = handle_remove,
	[WIRE_TYPE_stat] = handle_stat,
	[WIRE_TYPE_list] = handle_list,
	[WIRE_TYPE_ping] = handle_ping,
	[WIRE_TYPE_bye] = handle_bye,
	[WIRE_TYPE_fix_home] = handle_fix_home,
	[WIRE_TYPE_watch] = handle_watch,
	[WIRE_TYPE_unwatch] = handle_unwatch,
};

#define N_HANDLERS (sizeof(handlers) / sizeof(handlers[0]))

/* The id of the request that could not be read, so that the client knows which one. */
static uint64_t frame_id(const uint8_t *frame, size_t bytes)
{
	uint64_t id = 0;

	if (bytes >= WIRE_HEADER_BYTES)
		memcpy(&id, frame + WIRE_HEADER_BYTES - sizeof(id), sizeof(id));
	return le64toh(id);
}

static void dispatch(struct connection *connection, const struct wire_msg *msg)
{
	struct wire_msg *out = &connection->control->out;
	int result;

	connection->control->counters.requests++;
	result = connection->session
			 ? request_handle(connection, msg, out, handlers[msg->type])
			 : handlers[msg->type](connection, msg, out);
	if (result == HANDLER_ANSWER) {
		out->id = msg->id;
		connection_send(connection, out);
	} else if (result < 0) {
		log_event(LOG_DEBUG, "request-failed",
			  &(struct log_ctx){ .peer = connection->name }, "%s: %s",
			  wire_type_name(msg->type), err_text());
		connection_send_error(connection, msg->id, result, err_text());
	}
}

void dispatch_frame(struct connection *connection, const uint8_t *frame, size_t bytes)
{
	struct wire_msg *msg = &connection->control->in;

	if (wire_decode(frame, bytes, msg)) {
		connection_refuse(connection, frame_id(frame, bytes), -EPROTO,
				  err_text());
		return;
	}
	if (msg->type >= N_HANDLERS || !handlers[msg->type]) {
		(void)err_set(-EPROTO, "%s is not a request",
			      wire_type_name(msg->type));
		connection_refuse(connection, msg->id, -EPROTO, err_text());
		return;
	}
	if (msg->id == 0) {
		(void)err_set(-EPROTO, "%s with the id 0, which is for events",
			      wire_type_name(msg->type));
		connection_refuse(connection, 0, -EPROTO, err_text());
		return;
	}
	if (!connection->session != (msg->type == WIRE_TYPE_hello)) {
		(void)err_set(-EPROTO,
			      connection->session ? "a second hello"
						  : "%s before the hello",
			      wire_type_name(msg->type));
		connection_refuse(connection, msg->id, -EPROTO, err_text());
		return;
	}
	if (connection->session)
		session_heard(connection->session);
	dispatch(connection, msg);
}
