/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's end of one admitted stream: requests in, responses out, bytes straight
 * from and into exposed memory.  It lives as a record of the loop from admission until
 * the loop has read the news of its end; in between one data thread runs it.
 * Threads: what each function says. */
#ifndef FABRIC_TCP_CONN_H
#define FABRIC_TCP_CONN_H

#include <pthread.h>

#include "fabric/inband.h"
#include "fabric/tcp/mr.h"
#include "fabric/tcp/stream.h"

#define TCP_REPLIES 32u /* begun and not yet sent; a power of two */

/* A response that waits to be sent. */
struct tcp_reply {
	struct stream_response header;
	char *payload;              /* header.bytes of it; in the mr, or &word */
	const struct fabric_mr *mr; /* NULL: touches none */
	uint32_t bytes;             /* header.bytes in host order */
	uint64_t
		word; /* an aligned 8-byte read, an atomic's old value, or the result of
			* an in-band request */
};

enum tcp_phase {
	TCP_PHASE_REQUEST, /* receiving a request */
	TCP_PHASE_PAYLOAD, /* receiving a write's bytes into memory */
	TCP_PHASE_ATOMIC,  /* receiving an atomic's numbers */
	TCP_PHASE_INBAND,  /* receiving an in-band request's operands */
	TCP_PHASE_DRAIN,   /* dropping what came with a refused request */
};

struct tcp_conn {
	/* loop */
	struct list in_session;
	uint32_t channel;
	bool ended; /* by the server: no news of it */
	/* both: constant */
	struct fabric_session *session;
	int fd; /* closed by the loop, so that it can shut it down at any time */
	struct list *streams; /* its session's in its thread; that thread's to change */
	/* handed over with the order and the news */
	struct tcp_command command;
	struct tcp_event event;
	char why[FABRIC_TEXT_MAX];
	/* held by the thread while it works on the stream */
	pthread_mutex_t lock;
	bool killed; /* under lock: touch nothing any more */
	/* data thread */
	struct list in_streams;
	uint32_t interest; /* EPOLL* asked for */
	enum tcp_phase phase;
	struct stream_request request;
	size_t have;      /* of request */
	uint64_t cookie;  /* of the request in progress, as on the wire */
	uint32_t status;  /* it will have */
	uint32_t left;    /* of its payload */
	char *place;      /* where that goes */
	uint64_t word;    /* an aligned 8-byte write, until it is whole */
	char *word_place; /* of that, or of an atomic */
	enum stream_op atomic_op;
	struct stream_atomic atomic;  /* until it is whole, as on the wire */
	struct inband_request inband; /* likewise */
	uint32_t
		served; /* bytes that in-band requests worked on, not accounted for yet */
	const struct fabric_mr *target; /* that place is in */
	struct tcp_reply replies[TCP_REPLIES];
	unsigned first, n_replies; /* ring */
	size_t sent;               /* of the first reply, its header included */
};

/* Owns fd from then on.  -ENOMEM, or -errno when the socket cannot be set up; the fd is
 * then still the caller's.  [loop] */
int tcp_conn_new(int fd, struct fabric_session *session, uint32_t channel,
		 struct tcp_conn **ret_conn);
/* Closes the socket.  [loop], after its thread has forgotten it */
void tcp_conn_free(struct tcp_conn *conn);
/* Nothing is read or written for it once this returns; its thread will end it.  Waits for
 * the slice of work its thread may be in the middle of.  [loop] */
void tcp_conn_kill(struct tcp_conn *conn);

/* Do a slice of work.  False when the stream is over, with conn->why.  [data thread] */
bool tcp_conn_run(struct tcp_conn *conn, struct tcp_table *table);
/* The epoll events it waits for.  [data thread] */
uint32_t tcp_conn_interest(const struct tcp_conn *conn);
/* Stop touching an mr, which is no longer in the table.  False when that takes the
 * end of the stream.  [data thread] */
bool tcp_conn_forget(struct tcp_conn *conn, const struct fabric_mr *mr);
/* The same from outside.  False: nothing was done, as its thread works on it, or has to end
 * it.  [loop] */
bool tcp_conn_try_forget(struct tcp_conn *conn, const struct fabric_mr *mr);

#endif
