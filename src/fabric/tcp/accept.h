/* SPDX-License-Identifier: BSD-3-Clause */
/* Accepts connections and receives their hello.  The number of connections without a complete hello
 * and the time for a hello are limited; when all slots are in use, the oldest connection of the
 * address that has the most is rejected, so that silent peers cannot keep others out.  Threads:
 * [loop]. */
#ifndef FABRIC_TCP_ACCEPT_H
#define FABRIC_TCP_ACCEPT_H

#include <stdint.h>

#include "base/list.h"
#include "fabric/fabric.h"
#include "fabric/hello.h"
#include "wire/errors.h"

/* A descriptor in the epoll set of the server; `ready` handles its events. */
struct tcp_source {
	void (*ready)(struct tcp_source *source);
};

/* Watch fd for reading with `source`; -errno with text. */
int tcp_source_watch(int epoll_fd, int fd, struct tcp_source *source);

struct tcp_acceptor_events {
	/* A hello is complete; the callee owns the socket. */
	void (*hello)(void *ctx, int fd, const struct fabric_hello *hello);
	/* A connection was closed: its hello was wrong, late or incomplete. */
	void (*rejected)(void *ctx);
	/* No connection can be accepted for some time. */
	void (*trouble)(void *ctx, const char *text);
};

struct tcp_acceptor;

/* Listen at address (port 0: any) with `slots` >= 1 for connections without a hello.  Adds its
 * descriptors to the epoll set, with data.ptr a tcp_source.  Borrows events, ctx and epoll_fd.
 *   -EADDRINUSE, -EADDRNOTAVAIL, -EACCES ... with text that names the address */
int tcp_acceptor_open(const struct fabric_address *address, unsigned slots,
		      int epoll_fd, const struct tcp_acceptor_events *events, void *ctx,
		      struct tcp_acceptor **ret_acceptor);
/* Closes the listener and the connections that wait. */
void tcp_acceptor_close(struct tcp_acceptor *acceptor);

/* The port it listens on. */
uint16_t tcp_acceptor_port(const struct tcp_acceptor *acceptor);

/* Answer a hello: WIRE_CODE_none and "", or why it is not admitted.  If the peer is gone, nobody
 * reads it. */
void tcp_send_status(int fd, enum wire_code status, const char *why);

#endif
