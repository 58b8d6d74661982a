/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel of a queue, which outlives its connections: the queue's owner frees a dead connection
 * once everything on it was flushed, and the session's driver connects the channel again. */
#ifndef LIBRMEM_CHANNEL_CHANNEL_H
#define LIBRMEM_CHANNEL_CHANNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/err.h"
#include "fabric/client.h"
#include "librmem/channel/domain.h"
#include "librmem/session/session.h"

#include <rmem/rmem.h>

/* The longest wait between two attempts to connect a channel. */
#define CHANNEL_BACKOFF_MAX_MS 1000u
/* The shortest silence that ends a channel: a host that has much to do is not gone. */
#define CHANNEL_SILENCE_MIN_MS 1000u

struct rmem_queue;

/* A session's channels; under the session's lock. */
struct channel_table {
	struct list all;
	unsigned holds; /* number of calls that register or deregister local memory */
};

/* clang-format off */
#define CHANNEL_STATES(S)                                                         \
	S(USED)       /* the owner has a connection, or wants none */             \
	S(WANTED)     /* the server is asked for a channel number at retry_ns */  \
	S(CLOSING)    /* waits for the server to close the last connection */     \
	S(ASKED)      /* waits for the channel number */                          \
	S(REKEY)      /* granted; waits for the leases' rkeys for the endpoint */ \
	S(CONNECTING) /* a thread connects the channel without the lock */        \
	S(FRESH)      /* connected; not adopted by the owner yet */
#define CHANNEL_STEPS(S) S(WANT) S(CLOSE) S(CLOSED) S(SILENCE) S(ASK) S(GRANT) S(CONNECT) \
	S(CONNECTED) S(ADOPT) S(AGAIN) S(GIVE_UP)
/* State, step, next state, and what follows: all that there are. */
#define CHANNEL_MOVES(M)                                                                          \
	M(USED, WANT, WANTED)           /* the server is asked, perhaps to close first */         \
	M(WANTED, CLOSE, CLOSING)       /* lost fragments wait for the answer */                  \
	M(CLOSING, CLOSED, WANTED)      /* they are posted again, or fail */                      \
	M(CLOSING, SILENCE, WANTED)     /* the control connection is given up */                  \
	M(WANTED, ASK, ASKED)           /* answered, also after the session was lost meanwhile */ \
	M(WANTED, GRANT, REKEY)         /* the welcome has granted it; as below */                \
	M(ASKED, GRANT, REKEY)          /* leases get rkeys for the endpoint */                   \
	M(REKEY, CONNECT, CONNECTING)   /* once every lease has its rkeys */                      \
	M(CONNECTING, CONNECTED, FRESH) /* watched, or aborted if it comes too late */            \
	M(FRESH, ADOPT, USED)           /* operations are posted */                               \
	M(ASKED, AGAIN, WANTED)         /* closed at the server; asked for later */               \
	M(REKEY, AGAIN, WANTED)         /* likewise */                                            \
	M(CONNECTING, AGAIN, WANTED)    /* likewise */                                            \
	M(WANTED, GIVE_UP, USED)        /* closed at the server; the thread that waits decides */ \
	M(ASKED, GIVE_UP, USED)         /* likewise */                                            \
	M(REKEY, GIVE_UP, USED)         /* likewise */                                            \
	M(CONNECTING, GIVE_UP, USED)    /* likewise */
/* clang-format on */

#define CHANNEL_STATE_ENUM(state) CHANNEL_##state,
enum channel_state { CHANNEL_STATES(CHANNEL_STATE_ENUM) };
#define CHANNEL_STEP_ENUM(step) CHANNEL_STEP_##step,
enum channel_step { CHANNEL_STEPS(CHANNEL_STEP_ENUM) };

enum peer_end {
	PEER_END_OPEN, /* not known closed: late packets may still be applied */
	/* no packet is applied any more: the server has confirmed that, or has fenced the
	 * session */
	PEER_END_CLOSED,
	PEER_END_UNKNOWN, /* the server cannot be asked */
};

struct channel {
	/* constant */
	unsigned domain;
	uint8_t endpoint; /* the endpoint's index in the server's list */
	bool extra;       /* added to reach a sole endpoint */
	struct rmem *session;
	unsigned depth;        /* limit of operations on one connection */
	struct fabric_cq **cq; /* of the domain; *cq NULL: the owner has none now */
	void *owner;           /* wc.owner of its connections' completions */
	struct rmem_queue *queue;
	/* Tells the owner that the channel has changed; under the lock. */
	void (*wake)(struct rmem_queue *queue);

	/* the thread that connects the channel gives up; set under the lock, never reset */
	atomic_bool cancelled;

	/* state of the server's end of the last connection.  [any] */
	_Atomic int peer_end; /* enum peer_end */

	/* under the session's lock */
	struct list node; /* in session->channels */
	enum channel_state state;
	/* the owner's connection; only the owner sets it */
	struct fabric_channel *fabric;
	uint32_t number;
	bool doomed;  /* the driver has aborted the connection */
	bool watched; /* the connection's alive_fd is in the session's epoll set */
	bool ended;   /* the server ended the channel before it was connected */
	struct fabric_channel *fresh;
	struct connection_call *call;
	/* CHANNEL_CLOSING: a server that has not answered until then is given up */
	uint64_t close_due_ns;
	uint64_t retry_ns;
	struct backoff backoff;
	/* the thread that waits for the first connection; NULL: none */
	struct channel_waiter *waiter;
	unsigned resumes; /* session->resumes when that thread asked for the channel */
	uint32_t joining; /* `number`, for the thread that connects without the lock */
};

/* A thread that waits for a channel's first connection. */
struct channel_waiter {
	uint64_t end_ns; /* the thread's deadline */
	bool regranted; /* the first grant was of no use, and another one was asked for */
	struct err_saved failed; /* why connecting failed; err 0: no failure */
};

/* Connect a queue's channel for the first time.  Blocks until end_ns at most, and drives the
 * session meanwhile if no other thread does.  An extra channel that cannot be connected now is
 * connected later; with `may_wait` also a channel whose device is away.  [any], without the lock */
int channel_open(struct channel *channel, uint64_t end_ns, bool may_wait);

extern const struct session_observer channel_observer;

/* Make the fresh connection the owner's.  False: there is none.  [owner], under the lock */
bool channel_adopt(struct channel *channel);
/* Before the owner frees the connection: ask for a new connection, at once if this connection is
 * `proven`, that is, something has completed on it.  [owner], under the lock */
void channel_release(struct channel *channel, bool proven);
/* Add the channel to its session.  Under the lock. */
void channel_add(struct channel *channel);
/* No thread connects the channel from now on; a thread that connects it now gives up within
 * FD_WAIT_CANCEL_MS.  Under the lock. */
void channel_cancel(struct channel *channel);
/* Wait until no thread connects a cancelled channel.  Under the lock, which is released
 * meanwhile. */
void channel_await(struct channel *channel);
/* Then remove it from its session; the owner frees the connections.  Under the lock. */
void channel_remove(struct channel *channel);

#endif
