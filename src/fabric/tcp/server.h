/* SPDX-License-Identifier: BSD-3-Clause */
/* The server: sessions, each with its streams and memory regions.  All of it is the loop's. */
#ifndef FABRIC_TCP_SERVER_H
#define FABRIC_TCP_SERVER_H

#include "fabric/server.h"
#include "fabric/tcp/accept.h"
#include "fabric/tcp/thread.h"

struct fabric_server {
	const struct fabric_server_events *events;
	void *ctx;
	struct fabric_endpoint endpoint;
	struct fabric_endpoint_stats stats;
	int epoll_fd;
	struct mailbox mailbox;
	struct tcp_source mail; /* the mailbox in the epoll set */
	struct tcp_acceptor *acceptor;
	struct tls_context *tls; /* of the streams; NULL: without TLS */
	struct list sessions;
	struct list tenants;
	unsigned n_threads; /* data threads that have started */
	unsigned n_parts;   /* of a session, one for each thread */
	/* of the streams in the handshake of TLS: the one behind the data threads; NULL: without
	 * TLS */
	struct tcp_thread *handshakes;
	struct tcp_thread threads[];
};

#endif
