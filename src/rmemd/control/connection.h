/* SPDX-License-Identifier: BSD-3-Clause */
/* A control connection as the requests see it.  Embedded in what carries the bytes: a socket,
 * or a test.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_CONNECTION_H
#define RMEMD_CONTROL_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/control/control.h"
#include "wire/msg.h"

struct connection;
struct session;

/* What carries the bytes.  None of these ends the connection before it returns. */
struct connection_ops {
	void (*send)(struct connection *connection, const struct wire_msg *msg);
	/* Nothing more is taken from it; what was sent goes out, then it ends and
	 * session_connection_lost() is called. */
	void (*close)(struct connection *connection);
	/* Its hello is answered: the connection has a session, and what it sent behind the
	 * hello can be handled. */
	void (*authenticated)(struct connection *connection);
	/* Whether some of what was sent waits to go out.  When all of it has gone out,
	 * session_connection_idle() is called. */
	bool (*busy)(const struct connection *connection);
};

struct connection {
	const struct connection_ops *ops;
	struct control *control;
	struct session *session; /* NULL before the hello and after the end */
	uint16_t version;        /* of the protocol, as agreed */
	bool hello_pending; /* its hello waits: nothing else is handled meanwhile */
	bool closed;        /* close() was called */
	char name[64];      /* address:port */
};

void connection_init(struct connection *connection, const struct connection_ops *ops,
		     struct control *control, const char *name);
void connection_send(struct connection *connection, const struct wire_msg *msg);
void connection_send_error(struct connection *connection, uint64_t id, int err,
			   const char *text);
void connection_send_ok(struct connection *connection, uint64_t id);
/* Close it once. */
void connection_close(struct connection *connection);
/* Answer with an error, log it, close. */
void connection_refuse(struct connection *connection, uint64_t id, int err,
		       const char *text);

#endif
