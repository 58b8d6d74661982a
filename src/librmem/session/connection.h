/* SPDX-License-Identifier: BSD-3-Clause */
/* The control connection of a session: frames out and in on a non-blocking socket,
 * requests matched with their replies, events handed up.  It outlives its sockets: what
 * was not sent, or not answered, waits for the next one.
 *
 * A call whose reply was lost with the connection is sent again once the session has
 * resumed, in the order of the ids and before new ones.  It keeps its id, by which the
 * server knows what it has done already, so it takes effect once.  Only hello and bye end
 * with their connection.
 *
 * Threads: everything under the session's lock; callbacks run under it. */
#ifndef LIBRMEM_SESSION_CONNECTION_H
#define LIBRMEM_SESSION_CONNECTION_H

#include <sys/socket.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/msg.h"

struct connection;
struct connection_call;

/* A call ended: err 0 and the reply that belongs to its type, or a negative errno with
 * err_text() and no reply.  It may make new calls, but not drop the connection: a
 * negative errno returned says that the reply breaks the protocol, and connection_io()
 * passes it on. */
typedef int connection_done(void *ctx, int err, const struct wire_msg *reply);

struct connection_events {
	/* A request was answered that had been sent at that time: a sign of life. */
	void (*answered)(void *ctx, uint64_t sent_ns);
	/* The server tells something. */
	int (*event)(void *ctx, const struct wire_msg *event);
};

/* `epfd` gets the socket's readiness; borrowed, as are events and ctx.  -ENOMEM. */
int connection_create(int epfd, const struct connection_events *events, void *ctx,
		      struct connection **ret_control);
/* End it; calls still waiting end in -ECONNRESET.  NULL: nothing. */
void connection_free(struct connection *connection);

/* This host's address of the connection; -errno, -ENOTCONN: there is none. */
int connection_local(const struct connection *connection,
		     struct sockaddr_storage *ret_local);
/* Go on with a connecting or connected socket, which is taken over on success.  Only the
 * hello is sent before connection_ready(). */
int connection_adopt(struct connection *connection, int fd);
int connection_hello(struct connection *connection, const struct wire_msg *hello,
		     connection_done *done, void *ctx);
/* The server has taken the hello: send what waits. */
void connection_ready(struct connection *connection);

/* Queue a request; its id is chosen here.  *ret_call (may be NULL) names it until done()
 * was called.  -ENOMEM, -EINVAL (does not fit the protocol), or what connection_end() set;
 * done() is not called then. */
int connection_call(struct connection *connection, const struct wire_msg *request,
		    connection_done *done, void *ctx,
		    struct connection_call **ret_call);
/* Nobody waits for that call any more.  One that left nothing at the server is forgotten;
 * else `done` cleans up what its reply brings. */
void connection_abandon(struct connection_call *call, connection_done *done, void *ctx);

/* Send and receive what can be without blocking.  -errno with text: the connection is
 * lost (-ECONNRESET, -ECONNREFUSED, -EPROTO ...); nothing was dropped yet. */
int connection_io(struct connection *connection);
/* Close the socket, end a hello and a bye in -ECONNRESET, keep the other calls. */
void connection_drop(struct connection *connection);
/* Close the socket, end all calls, and refuse new ones, with `err` and the text. */
void connection_end(struct connection *connection, int err, const char *text);

#endif
