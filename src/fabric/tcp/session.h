/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of a session: its streams and its memory regions, and the order in which
 * they end.
 * Threads: [loop]. */
#ifndef FABRIC_TCP_SESSION_H
#define FABRIC_TCP_SESSION_H

#include "fabric/tcp/conn.h"
#include "fabric/tcp/mr.h"
#include "fabric/tcp/thread.h"

/* What all sessions of a server share; owned by the server. */
struct tcp_shared {
	const struct fabric_server_events *events;
	void *ctx;
	struct fabric_endpoint_stats stats;
	struct mailbox mailbox;
	struct list sessions;
	unsigned next_thread; /* serves the next stream */
	unsigned n_threads;
	struct tcp_thread **threads;
};

int tcp_session_open(struct tcp_shared *shared, void *cookie,
		     struct fabric_session **ret_session);
/* Free all sessions with their streams and regions, without events; no thread is left. */
void tcp_session_free_all(struct tcp_shared *shared);
void tcp_session_close(struct fabric_session *session);
int tcp_session_channel_close(struct fabric_session *session, uint32_t channel);

/* A stream was admitted: send the status and hand it to a thread.  The session owns the socket.
 * The session may have been closed on return, by channel_up(). */
void tcp_session_join(struct fabric_session *session, int fd, uint32_t channel);

int tcp_session_reg_mr(struct fabric_session *session, void *addr, size_t bytes,
		       unsigned rights, void *cookie, struct fabric_mr **ret_mr);
void tcp_session_dereg_mr(struct fabric_mr *mr);
int tcp_session_reg_mr_now(struct fabric_session *session, void *addr, size_t bytes,
			   unsigned rights, void *cookie, struct fabric_mr **ret_mr,
			   struct fabric_key *ret_key);
bool tcp_session_dereg_mr_now(struct fabric_mr *mr);

/* Handle an event from the mailbox. */
void tcp_session_handle_event(struct tcp_event *event);

#endif
