/* SPDX-License-Identifier: BSD-3-Clause */
/* Where connections wait from accept until their hello is complete.  Their number and
 * their patience are limited; when the acceptor is full, the one that has waited longest
 * goes, so that silent ones cannot shut others out.
 * Threads: [loop]. */
#ifndef FABRIC_TCP_LOBBY_H
#define FABRIC_TCP_LOBBY_H

#include <stdint.h>

#include "base/list.h"
#include "fabric/fabric.h"

/* Something in the server's epoll set; `ready` handles what epoll reports of it. */
struct tcp_source {
	void (*ready)(struct tcp_source *source);
};

/* Watch fd for reading with `source`; -errno with text. */
int tcp_source_watch(int epoll_fd, int fd, struct tcp_source *source);

struct tcp_acceptor_events {
	/* A hello is complete; the socket is the callee's from now on. */
	void (*hello)(void *ctx, int fd, const struct fabric_hello *hello);
	/* A connection ended here: its hello was wrong, late or cut short. */
	void (*rejected)(void *ctx);
	/* No connection can be accepted for a while. */
	void (*trouble)(void *ctx, const char *text);
};

struct tcp_acceptor;

/* Listen at address (family 0: both wildcards; port 0: any) and hold at most `slots`
 * connections, >= 1.  Adds its descriptors to the epoll set, with data.ptr a tcp_source.
 * Borrows events, ctx and epoll_fd.
 *   -EADDRINUSE, -EADDRNOTAVAIL, -EACCES ... with text that names the address */
int tcp_acceptor_open(const struct fabric_address *address, unsigned slots,
		      int epoll_fd, const struct tcp_acceptor_events *events, void *ctx,
		      struct tcp_acceptor **ret_lobby);
/* Closes the listener and all who wait. */
void tcp_acceptor_close(struct tcp_acceptor *acceptor);

/* The port it listens on. */
uint16_t tcp_acceptor_port(const struct tcp_acceptor *acceptor);

/* Send a status (STREAM_*), as an errno number.  0, or -errno when it cannot be sent. */
int tcp_send_status(int fd, uint32_t status);

#endif
