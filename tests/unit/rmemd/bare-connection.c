/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/bare-connection.h"

#include <check.h>

#include "base/err.h"
#include "wire/codec.h"

static struct bare_connection *bare_of(struct connection *connection)
{
	return container_of(connection, struct bare_connection, connection);
}

static void op_send(struct connection *connection, const struct wire_msg *msg)
{
	static uint8_t sent[WIRE_FRAME_MAX];
	static struct wire_msg received;
	struct bare_connection *bare = bare_of(connection);
	int bytes = wire_encode(msg, sent, sizeof(sent));

	ck_assert_int_gt(bytes, 0);
	/* a client loses its connection over a message that it cannot decode */
	ck_assert_msg(wire_decode(sent, (size_t)bytes, &received) == 0, "%s",
		      err_text());
	bare->received(bare, msg);
}

static void op_close(struct connection *connection)
{
	bare_of(connection)->ended = true;
}

static void op_authenticated(struct connection *connection)
{
	ck_assert_ptr_nonnull(connection->session);
}

static bool op_busy(struct connection *connection)
{
	return bare_of(connection)->busy;
}

static bool op_unread(struct connection *connection)
{
	return bare_of(connection)->unread;
}

static bool op_abandoned(struct connection *connection)
{
	return bare_of(connection)->abandoned;
}

static int op_identify(struct connection *, const char *)
{
	return 0;
}

void bare_connection_init(struct bare_connection *bare, struct control *control,
			  void (*received)(struct bare_connection *bare,
					   const struct wire_msg *msg))
{
	static const struct connection_ops ops = {
		.send = op_send,
		.close = op_close,
		.authenticated = op_authenticated,
		.busy = op_busy,
		.unread = op_unread,
		.identify = op_identify,
		.abandoned = op_abandoned,
	};
	const struct fabric_address address = { .family = 4,
						.bytes = { 192, 0, 2, 1 },
						.port = 1 };

	*bare = (struct bare_connection){ .received = received };
	connection_init(&bare->connection, &ops, control, &address);
}
