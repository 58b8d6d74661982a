/* SPDX-License-Identifier: BSD-3-Clause */
/* The streams of a session: they are admitted, shake hands under TLS, are served by a data thread
 * each, and end.  Threads: [loop]. */
#ifndef FABRIC_TCP_SESSION_STREAMS_H
#define FABRIC_TCP_SESSION_STREAMS_H

#include "fabric/tcp/session.h"

/* A stream was admitted.  The session owns the socket.  It may have been closed on return, by
 * channel_up(). */
void tcp_session_join(struct fabric_session *session, int fd, uint32_t channel);
/* fabric_server_ops.channel_close */
int tcp_session_channel_close(struct fabric_session *session, uint32_t channel);
/* Have it end; also one that waits for its handshake, which no thread has. */
void tcp_conn_stop(struct tcp_conn *conn);
/* No thread has it: send the event of its end. */
void tcp_conn_drop_waiting(struct tcp_conn *conn);
/* Free it, after the event of its end or when the server closes. */
void tcp_conn_remove(struct tcp_conn *conn);

#endif
