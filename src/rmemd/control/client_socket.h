/* SPDX-License-Identifier: BSD-3-Clause */
/* The socket of a client, for connections.c alone: what both files know of it, and its output.
 * Threads: [loop]. */
#ifndef RMEMD_CONTROL_CLIENT_SOCKET_H
#define RMEMD_CONTROL_CLIENT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "rmemd/control/connection.h"
#include "rmemd/control/newcomers.h"
#include "rmemd/loop/slices.h"
#include "tls/stream.h"
#include "wire/codec.h"

struct evbuffer;
struct event;
struct handshake;
struct handshakes;

/* Bytes of a client's requests that are read before they are handled. */
#define INBOX_BYTES (2 * (size_t)WIRE_FRAME_MAX)

struct connections {
	struct control *control;
	struct handshakes *handshakes;
	struct slice_queue slices; /* input of the unauthenticated */
	struct list active;        /* with a session */
	struct list
		unchecked; /* the same, until connections_recheck() has come to them */
	struct slice_queue rechecks;
	struct slice_work recheck;
	struct list
		unauthenticated; /* without one, the oldest first: they have places */
	struct newcomers newcomers; /* these, and those that wait for a place */
	unsigned n_unauthenticated;
	uint64_t changed_ns; /* when a place was taken or left last */
	struct slice_work admission;
	struct event *stuck; /* a look at the places, while somebody waits */
	uint8_t frame[WIRE_FRAME_MAX];
	uint8_t inbox[INBOX_BYTES]; /* of the connection whose turn it is */
};

/* A connection goes through these in their order, and may leave some out. */
enum socket_state {
	SOCKET_WAITS,      /* for a place; it ends at a deadline, and is not read */
	SOCKET_HANDSHAKES, /* of TLS; it ends at a deadline */
	SOCKET_GREETS,     /* no hello yet; it ends at the same deadline */
	SOCKET_SERVES,     /* it has a session, whose fence is the limit */
	SOCKET_CLOSES,     /* the last messages are sent, until a deadline of its own */
};

struct client_socket {
	struct connection connection;
	struct connections *connections;
	struct list link; /* unless it waits for a place */
	enum socket_state state;
	struct newcomer newcomer;    /* while it has no session */
	struct handshake *handshake; /* has the stream until it is done; or NULL */
	struct stream stream;
	struct event *readable, *writable, *deadline;
	struct slice_work work; /* to handle input */
	struct tenant *tenant;  /* holds a reference; NULL before the hello */
	uint8_t *unread;        /* input that is not handled yet; NULL: none */
	size_t unread_bytes;
	size_t behind_bytes;     /* of input behind the request that is being handled */
	struct evbuffer *output; /* not sent yet */
	uint64_t
		answered_ns; /* when the handshake's first message was answered; or 0 */
	bool hung_up;        /* stream_end() was called */
	bool stalled;        /* input waits, as the output is full */
	enum refusal refusal; /* the reason of `why` */
	const char *why;
};

static inline struct client_socket *socket_of(struct connection *connection)
{
	return container_of(connection, struct client_socket, connection);
}

void socket_set_deadline(struct client_socket *socket, unsigned ms);
/* End the connection from the loop, as its functions may be on the stack now. */
void socket_end_soon(struct client_socket *socket, const char *why);

/* connection_ops.send */
void output_add(struct connection *connection, const struct wire_msg *msg);
/* Send what waits.  False: the socket is full, or broken. */
bool output_send(struct client_socket *socket);
/* Whether no request is handled before the client has read its answers. */
bool output_is_full(const struct client_socket *socket);
/* Send when the socket is writable. */
void output_watch(struct client_socket *socket);
/* Everything is sent: tell the client by an end of file.  A close could discard what is still
 * on its way. */
void output_end(struct client_socket *socket);

#endif
