/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/messages.h"

#include "rmemd/control/connection.h"
#include "rmemd/control/request.h"
#include "simulate/checks.h"
#include "simulate/daemon.h"
#include "simulate/sim.h"
#include "wire/codec.h"

/* The transport's, and those that look at each message first. */
static const struct connection_ops *transport_ops;
static struct connection_ops ops;

struct fabric_address messages_address(unsigned client)
{
	return (struct fabric_address){ .family = 4,
					.bytes = { 192, 0, 2, (uint8_t)client } };
}

static unsigned client_of(const struct connection *connection)
{
	return connection->address.bytes[3];
}

static void op_send(struct connection *connection, const struct wire_msg *msg)
{
	if (connection->closed)
		return;
	daemon_point();
	if (daemon_is_dead())
		return;
	check_message(msg);
	sim_note("  client %u <- %s %llu%s%s", client_of(connection),
		 wire_type_name(msg->type), (unsigned long long)msg->id,
		 msg->type == WIRE_TYPE_error ? ": " : "",
		 msg->type == WIRE_TYPE_error ? msg->error.text : "");
	transport_ops->send(connection, msg);
}

void __real_connection_init(struct connection *connection,
			    const struct connection_ops *of, struct control *control,
			    const struct fabric_address *address);
void __wrap_connection_init(struct connection *connection,
			    const struct connection_ops *of, struct control *control,
			    const struct fabric_address *address);
void __real_dispatch_frame(struct connection *connection, const uint8_t *frame,
			   size_t bytes);
void __wrap_dispatch_frame(struct connection *connection, const uint8_t *frame,
			   size_t bytes);

void __wrap_connection_init(struct connection *connection,
			    const struct connection_ops *of, struct control *control,
			    const struct fabric_address *address)
{
	transport_ops = of;
	ops = *of;
	ops.send = op_send;
	__real_connection_init(connection, &ops, control, address);
}

void __wrap_dispatch_frame(struct connection *connection, const uint8_t *frame,
			   size_t bytes)
{
	sim_note("  client %u -> %s", client_of(connection),
		 wire_type_name(wire_frame_type(frame)));
	__real_dispatch_frame(connection, frame, bytes);
}
