/* SPDX-License-Identifier: BSD-3-Clause */
/* A control connection over the socket of a client: its states, input and output; and what it knows
 * of all of them, which connections.c has.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_CLIENT_SOCKET_H
#define RMEMD_CONTROL_CLIENT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "fabric/slots.h"
#include "rmemd/control/connection.h"
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
	struct slice_queue queue; /* input of those without a session */
	struct list active;       /* with a session */
	/* with a session, until connections_recheck() has come to them */
	struct list unchecked;
	struct slice_queue rechecks;
	struct slice_work recheck;
	struct slots slots;  /* of those without a session */
	uint64_t changed_ns; /* when a slot was taken or left last */
	struct slice_work admission;
	struct event *stuck; /* a look at the slots, while somebody waits */
	uint8_t frame[WIRE_FRAME_MAX];
	uint8_t inbox[INBOX_BYTES]; /* of the connection whose turn it is */
};

/* A connection goes through these in their order, and may leave some out. */
enum socket_state {
	SOCKET_WAITS,      /* for a slot; it ends at a deadline, and is not read */
	SOCKET_HANDSHAKES, /* of TLS; it ends at a deadline */
	SOCKET_GREETS,     /* no hello yet; it ends at the same deadline */
	SOCKET_SERVES,     /* it has a session, whose fence is the limit */
	SOCKET_CLOSES,     /* the last messages are sent, until a deadline of its own */
};

struct client_socket {
	struct connection connection;
	struct connections *connections;
	struct list link; /* in connections->active or ->unchecked */
	enum socket_state state;
	struct slot slot;            /* while it has no session */
	struct handshake *handshake; /* owner of the stream until it is done; or NULL */
	struct stream stream;
	struct event *readable, *writable, *deadline;
	struct slice_work work;    /* to handle input */
	struct slice_queue *queue; /* its tenant's, or that of strangers */
	struct tenant *tenant;     /* holds a reference; NULL before the hello */
	uint8_t *unread;           /* input that is not handled yet; NULL: none */
	size_t unread_bytes;
	size_t behind_bytes;     /* of input behind the request that is being handled */
	struct evbuffer *output; /* not sent yet */
	/* time of the answer to the handshake's first message; 0: none yet */
	uint64_t answered_ns;
	bool hung_up;         /* stream_end() was called */
	bool stalled;         /* input waits, as the output is full */
	enum refusal refusal; /* the reason of `why` */
	const char *why;
};

static inline struct client_socket *socket_of(struct connection *connection)
{
	return container_of(connection, struct client_socket, connection);
}

/* Give slots that are free to those that wait. */
void admit_soon(struct connections *connections);
/* Make one that waits for a slot, and own the socket, also on failure.  -ENOMEM */
int socket_open(struct connections *connections, int fd,
		const struct fabric_address *address);
/* Take a slot, and handle what has arrived, which may end it. */
void socket_start(struct client_socket *socket);
/* End a connection whose deadline has passed, or whose slot another one needs. */
void socket_refuse(struct client_socket *socket, enum refusal refusal, const char *why);
/* End it, which its session is told of. */
void socket_free(struct client_socket *socket, const char *why);

#endif
