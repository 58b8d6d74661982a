/* SPDX-License-Identifier: BSD-3-Clause */
/* A session at the server, with its streams and memory regions, and the order in which they end.
 * Threads: [loop]. */
#ifndef FABRIC_TCP_SESSION_H
#define FABRIC_TCP_SESSION_H

#include <stdbool.h>

#include "base/list.h"
#include "fabric/tcp/conn.h"
#include "fabric/tcp/server.h"

struct fabric_session {
	struct fabric_server *server;
	struct tcp_tenant *tenant;
	struct list link; /* server->sessions */
	void *cookie;
	bool closing;
	unsigned n_closing; /* threads that have not been told so yet */
	struct tcp_event closed;
	/* streams are served until this time; 0: closing.  The data threads read it */
	_Atomic uint64_t until_ns;
	struct list conns;
	struct list waiting; /* the commands of those that wait for their handshake */
	unsigned n_handshakes;
	struct list mrs;
	/* one per thread, which alone looks at its lists while they have members */
	struct tcp_part parts[];
};

/* fabric_server_ops. */
int tcp_session_open(struct fabric_server *server, unsigned endpoint, void *cookie,
		     struct fabric_session **ret_session);
void tcp_session_close(struct fabric_session *session);
void tcp_session_extend(struct fabric_session *session, uint64_t until_ns);
/* When the server closes, without events. */
void tcp_session_free(struct fabric_session *session);

/* Whether the server has ended the stream, without channel_down(). */
static inline bool tcp_conn_has_ended(const struct tcp_conn *conn)
{
	return conn->ended || conn->session->closing;
}

/* A session that is being closed ends when it has no streams and regions, and no thread has it. */
static inline void tcp_session_check_closed(struct fabric_session *session)
{
	if (session->closing && !session->n_closing && list_empty(&session->conns) &&
	    list_empty(&session->mrs))
		mailbox_post(&session->server->mailbox, &session->closed.link);
}

#endif
