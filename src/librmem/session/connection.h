/* SPDX-License-Identifier: BSD-3-Clause */
/* The control connection of a session: sends and receives frames on a non-blocking socket, matches
 * requests with replies, hands events up.  The control connection outlives its sockets: what was
 * not sent, or not answered, waits for the next socket.
 *
 * A call whose reply was lost with the socket is sent again once the session has resumed, in the
 * order of the ids and before new calls.  The call keeps its id, by which the server knows what was
 * done already, so the call takes effect once.  Only hello and bye end with their socket.
 *
 * Threads: everything under the session's lock; callbacks run under the lock. */
#ifndef LIBRMEM_SESSION_CONNECTION_H
#define LIBRMEM_SESSION_CONNECTION_H

#include <sys/socket.h>
#include <stdbool.h>
#include <stdint.h>

#include "tls/stream.h"
#include "wire/msg.h"

/* Limit of requests without a reply, more than a program has threads: those that nobody waits for
 * any more are kept, and a server may answer heartbeats alone. */
#define CONNECTION_CALLS_MAX 16384u

struct connection;
struct connection_call;

/* The end of a call: err 0 and the reply that belongs to the request's type, or a negative errno
 * with err_text() and no reply.  The callback may make new calls, but not drop the connection: a
 * negative errno returned says that the reply breaks the protocol, and connection_io() returns this
 * errno. */
typedef int connection_done(void *ctx, int err, const struct wire_msg *reply);

struct connection_events {
	/* The server has answered a request that was sent at sent_ns: a sign of life. */
	void (*answered)(void *ctx, uint64_t sent_ns);
	/* An event of the server; what connection_done may do, this may do. */
	int (*event)(void *ctx, const struct wire_msg *event);
};

/* The socket is put into the epoll set `epfd`; epfd, events and ctx are borrowed.  -ENOMEM. */
int connection_create(int epfd, const struct connection_events *events, void *ctx,
		      struct connection **ret_control);
/* Calls still waiting end in -ECONNRESET.  NULL: nothing. */
void connection_free(struct connection *connection);

/* Whether there is no socket, or it is still the connection's. */
bool connection_has_fd(const struct connection *connection);

/* In the child of a fork(): close the child's copy of the socket. */
void connection_leave(struct connection *connection);

/* The socket's local address.  -errno; -ENOTCONN: there is no socket. */
int connection_local(const struct connection *connection,
		     struct sockaddr_storage *ret_local);
/* Continue on a connected socket, which the connection owns, also on failure; under
 * TLS, unless `tls` is NULL.  Only the hello is sent before connection_ready(). */
int connection_adopt(struct connection *connection, int fd, struct tls_context *tls);
/* Whether the socket is under TLS, after the handshake. */
bool connection_is_secure(const struct connection *connection);
/* The server has accepted the hello, accepts so many requests without a reply, and has told the
 * secret that admits channels: send the calls that wait. */
void connection_ready(struct connection *connection, unsigned requests_max,
		      const uint8_t secret[WIRE_SECRET_BYTES]);
/* That secret; zeros before connection_ready(), and once the socket is closed. */
const uint8_t *connection_secret(const struct connection *connection);

/* Queue a request, which is sent once fewer than the server accepts have no reply.  `done` may be
 * NULL.  *ret_call (may be NULL) is valid until done() was called.  -ENOMEM, -EINVAL (does not fit
 * the protocol), -ETIMEDOUT (too many are without a reply), or the error given to connection_end();
 * done() is not called then. */
int connection_call(struct connection *connection, const struct wire_msg *request,
		    connection_done *done, void *ctx,
		    struct connection_call **ret_call);
/* Until connection_flush() calls wait, to be sent together. */
void connection_gather(struct connection *connection);
void connection_flush(struct connection *connection);
/* No thread waits for the call any more.  False: it had changed nothing at the server, and is
 * dropped; true: `done` (NULL: nothing) gets its end. */
bool connection_abandon(struct connection_call *call, connection_done *done, void *ctx);

/* Send and receive as much as possible without blocking.  -errno with text: the socket is lost
 * (-ECONNRESET, -ECONNREFUSED, -EPROTO ...); no call was dropped yet. */
int connection_io(struct connection *connection);
/* Until connection_take_back() the epoll set does not report bytes to receive, and connection_io()
 * only sends: the caller waits for the bytes itself.  Returns the socket; -1: there is none, or its
 * buffer is full, or another caller waits for the bytes. */
int connection_take_over(struct connection *connection);
/* Before connection_io() or connection_call(). */
void connection_take_back(struct connection *connection);
/* Close the socket; end hello and bye in -ECONNRESET, keep the other calls. */
void connection_drop(struct connection *connection);
/* Close the socket; end all calls, and refuse new calls, with `err` and the text. */
void connection_end(struct connection *connection, int err, const char *text);

#endif
