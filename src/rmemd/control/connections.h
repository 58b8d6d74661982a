/* SPDX-License-Identifier: BSD-3-Clause */
/* Control connections over sockets: frames in and out, with limits on all a client can
 * make us keep.  What goes out goes through a bufferevent; with a TLS one what comes in
 * would have to, too.
 * Threads: [loop]. */
#ifndef RMEMD_CONTROL_CONNECTIONS_H
#define RMEMD_CONTROL_CONNECTIONS_H

#include <event2/event.h>

struct connections;
struct control;

/* No hello by then: the connection ends. */
#define CONNECTION_HELLO_MS 5000
/* A client that lets so many bytes of answers pile up is cut off. */
#define CONNECTION_OUTPUT_MAX (1u << 20)
/* How long what was said last may take to arrive. */
#define CONNECTION_LINGER_MS 1000

/* Borrows both.  -ENOMEM */
int connections_open(struct event_base *base, struct control *control,
		     struct connections **ret_connections);
/* Ends them all at once.  NULL: nothing. */
void connections_close(struct connections *connections);

/* Serve a connected socket, which is the connections' from now on, also on failure: take
 * what it has said already, which may end it.  Of too many without a session the oldest is
 * ended.  -ENOMEM */
int connection_create(struct connections *connections, int fd, const char *name);
/* Close them all in order; drained(ctx) is called from the loop when the last one has
 * ended, CONNECTION_LINGER_MS later at most. */
void connections_drain(struct connections *connections, void (*drained)(void *ctx),
		       void *ctx);

#endif
