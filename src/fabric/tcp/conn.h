/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's end of one admitted stream: it receives requests, sends responses, and copies
 * bytes directly from and to registered memory.  The loop creates it, one data thread runs it,
 * and the loop frees it after the event of its end.
 * Threads: stated at each function. */
#ifndef FABRIC_TCP_CONN_H
#define FABRIC_TCP_CONN_H

#include <pthread.h>
#include <stdatomic.h>

#include "fabric/inband.h"
#include "fabric/tcp/buffers.h"
#include "fabric/tcp/mr.h"
#include "fabric/tcp/ready.h"
#include "fabric/tcp/stream.h"
#include "fabric/tcp/traffic.h"
#include "tls/pipe.h"

enum tcp_phase {
	TCP_PHASE_REQUEST, /* receiving a request */
	TCP_PHASE_PAYLOAD, /* receiving a write's bytes into memory */
	TCP_PHASE_ATOMIC,  /* receiving an atomic's numbers */
	TCP_PHASE_INBAND,  /* receiving an in-band request's operands */
	TCP_PHASE_DRAIN,   /* dropping the payload of a refused request */
};

/* Who has the stream. */
enum tcp_stage {
	TCP_STAGE_WAITS, /* the loop, until its session has fewer handshakes under way */
	TCP_STAGE_HANDSHAKE, /* the thread of handshakes */
	TCP_STAGE_SERVED,    /* its data thread */
	TCP_STAGE_OVER,      /* the loop, which gets the event of its end */
};

/* What became of a slice. */
enum tcp_run {
	TCP_RUN_OVER,  /* the stream has ended, with conn->why */
	TCP_RUN_WAITS, /* for the socket */
	TCP_RUN_READY, /* the slice was used up */
	TCP_RUN_UP,    /* the handshake of TLS is done */
};

/* A session in a thread. */
struct tcp_part {
	struct fabric_session *session; /* constant */
	/* owned by the receiver of the command or event */
	struct tcp_command command; /* its streams are to end */
	struct tcp_event closed;    /* the thread ends them */
	struct list streams;
	struct tcp_group ready; /* of them */
	unsigned n_streams;     /* until the loop has removed them; the loop's */
};

struct tcp_conn {
	/* loop */
	struct list in_session;
	uint32_t channel;
	enum tcp_stage stage;
	unsigned thread; /* the number of its data thread */
	bool ended;      /* by channel_close(), without channel_down() */
	bool quiet;      /* it or its session has ended, and tcp_conn_is_quiet() */
	bool counted;    /* as one under TLS in the kernel */
	/* both: constant */
	struct fabric_session *session;
	int fd; /* closed by the loop, which may shut it down at any time */
	/* NULL: none, or the kernel does it.  Of the data thread, while it has the stream */
	struct tls_pipe *tls;
	bool secure;      /* the handshake of TLS is done, or there is none */
	bool in_kernel;   /* TLS; constant once secure */
	uint64_t records; /* of TLS in the kernel, that were sent */
	/* nothing is received from this time on; the loop moves it.  0: the session was closed, and
	 * the stream ends as if it were killed */
	const _Atomic uint64_t *until_ns;
	struct tcp_part *part; /* of the session, in the thread that has the stream */
	/* of its data thread, for the thread of handshakes */
	struct tcp_part *home;
	struct mailbox *home_commands;
	/* of the data thread */
	struct tcp_table *table;
	struct tcp_traffic *traffic;
	/* owned by the receiver of the command or event */
	struct tcp_command command;
	/* end of the stream, which its thread has forgotten */
	struct tcp_event event;
	struct tcp_event up_event;      /* the handshake of TLS is done */
	struct tcp_event refused_event; /* under way while `refused` is not 0 */
	atomic_uint refused;            /* requests, not yet reported */
	char why[FABRIC_TEXT_MAX];
	/* held by the thread while it works on the stream */
	pthread_mutex_t lock;
	/* Set by the loop: the thread begins no request any more.  Atomic, not under lock: the
	 * thread looks at it after each request, and else the loop would wait for a whole slice. */
	atomic_bool killed;
	/* data thread */
	struct list in_streams;
	struct list in_ready; /* of part->ready, while it is ready */
	unsigned refused_now; /* requests, in this slice */
	enum tcp_phase phase;
	struct stream_request request;
	size_t have;      /* of request */
	uint64_t cookie;  /* of the request in progress, as on the wire */
	uint32_t status;  /* of its response */
	uint32_t left;    /* payload of the request not received yet */
	char *place;      /* for the rest of the payload */
	uint64_t word;    /* an aligned 8-byte write, until complete */
	char *word_place; /* destination of `word`, or of an atomic */
	enum stream_op atomic_op;
	struct stream_atomic atomic;  /* until complete, as on the wire */
	struct inband_request inband; /* until complete, as on the wire */
	/* bytes that in-band requests worked on, not accounted for yet */
	uint32_t served;
	const struct fabric_mr *target; /* the region of `place` */
	bool ending; /* the peer has sent its end, or the socket has failed */
	struct tcp_buffers *buffers; /* NULL: there is nothing in them */
};

/* Create a stream, which owns fd and borrows until_ns.  The caller may set `tls`, and then clears
 * `secure`.  -ENOMEM, or -errno if the socket cannot be
 * set up: the caller still owns fd.  [loop] */
int tcp_conn_new(int fd, struct fabric_session *session, uint32_t channel,
		 const _Atomic uint64_t *until_ns, struct tcp_conn **ret_conn);
/* Free a stream and close its socket.  [loop], after the event of its end */
void tcp_conn_free(struct tcp_conn *conn);
/* Shut the stream down: its thread begins no request any more, and ends the stream later.  Does not
 * wait.  [loop] */
void tcp_conn_kill(struct tcp_conn *conn);
/* Whether no memory is read or written any more for a stream that was killed, or whose session was
 * closed.  [loop] */
bool tcp_conn_is_quiet(struct tcp_conn *conn);
/* The same, but wait for it: for one request at most.  [loop] */
void tcp_conn_await_quiet(struct tcp_conn *conn);

/* Do a slice of work.  *spare: buffers that are lent, made when there are none, and given back when
 * they are empty.  [data thread] */
enum tcp_run tcp_conn_run(struct tcp_conn *conn, struct tcp_buffers **spare);
/* Stop using a region that is no longer in the table.  False: the stream has to end.
 * [data thread] */
bool tcp_conn_release_mr(struct tcp_conn *conn, const struct fabric_mr *mr);
/* As above, for the loop.  False: no effect, as the thread works on the stream or has to end it.
 * [loop] */
bool tcp_conn_try_release_mr(struct tcp_conn *conn, const struct fabric_mr *mr);

#endif
