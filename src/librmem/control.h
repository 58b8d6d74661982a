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
#ifndef LIBRMEM_CONTROL_H
#define LIBRMEM_CONTROL_H

#include <sys/socket.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/msg.h"

struct control;
struct control_call;

/* A call ended: err 0 and the reply that belongs to its type, or a negative errno with
 * err_text() and no reply.  It may make new calls, but not drop the connection: a
 * negative errno returned says that the reply breaks the protocol, and control_io()
 * passes it on. */
typedef int control_done(void *ctx, int err, const struct wire_msg *reply);

struct control_events {
	/* A request was answered that had been sent at that time: a sign of life. */
	void (*answered)(void *ctx, uint64_t sent_ns);
	/* The server tells something. */
	int (*event)(void *ctx, const struct wire_msg *event);
};

/* `epfd` gets the socket's readiness; borrowed, as are events and ctx.  -ENOMEM. */
int control_create(int epfd, const struct control_events *events, void *ctx,
		   struct control **ret_control);
/* End it; calls still waiting end in -ECONNRESET.  NULL: nothing. */
void control_free(struct control *control);

/* This host's address of the connection; -errno, -ENOTCONN: there is none. */
int control_local(const struct control *control, struct sockaddr_storage *ret_local);
/* Go on with a connecting or connected socket, which is taken over on success.  Only the
 * hello is sent before control_ready(). */
int control_adopt(struct control *control, int fd);
int control_hello(struct control *control, const struct wire_msg *hello,
		  control_done *done, void *ctx);
/* The server has taken the hello: send what waits. */
void control_ready(struct control *control);

/* Queue a request; its id is chosen here.  *ret_call (may be NULL) names it until done()
 * was called.  -ENOMEM, -EINVAL (does not fit the protocol), or what control_end() set;
 * done() is not called then. */
int control_call(struct control *control, const struct wire_msg *request,
		 control_done *done, void *ctx, struct control_call **ret_call);
/* What it asks for. */
enum wire_type control_call_type(const struct control_call *call);
/* Nobody waits for that call any more.  One that left nothing at the server is forgotten;
 * else `done` cleans up what its reply brings. */
void control_abandon(struct control_call *call, control_done *done, void *ctx);

/* Send and receive what can be without blocking.  -errno with text: the connection is
 * lost (-ECONNRESET, -ECONNREFUSED, -EPROTO ...); nothing was dropped yet. */
int control_io(struct control *control);
/* Close the socket, end a hello and a bye in -ECONNRESET, keep the other calls. */
void control_drop(struct control *control);
/* Close the socket, end all calls, and refuse new ones, with `err` and the text. */
void control_end(struct control *control, int err, const char *text);

#endif
