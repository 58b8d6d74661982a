/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel of a queue, which outlives the connections in it: a dead one is freed by the queue's
 * owner once everything on it was flushed, and the session's driver puts a fresh one in its
 * place. */
#ifndef LIBRMEM_CHANNEL_CHANNEL_H
#define LIBRMEM_CHANNEL_CHANNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/backoff.h"
#include "fabric/fabric.h"
#include "librmem/session/session.h"

#include <rmem/rmem.h>

/* The longest wait before the next attempt to connect a channel. */
#define CHANNEL_BACKOFF_MAX_MS 1000u

struct rmem_queue;

enum channel_stage {
	CHANNEL_USED,       /* the owner has a channel */
	CHANNEL_WANTED,     /* ask the server for one, at retry_ns */
	CHANNEL_CLOSING,    /* to end the last one first */
	CHANNEL_ASKED,      /* for its number */
	CHANNEL_REKEY,      /* first on its endpoint: leases get keys for it */
	CHANNEL_CONNECTING, /* by the driver, without the lock */
	CHANNEL_FRESH,      /* connected, the owner has not seen it yet */
};

enum peer_end {
	PEER_END_OPEN,    /* not known to be dead: late packets may still be applied */
	PEER_END_CLOSED,  /* dead, nothing of it is applied any more */
	PEER_END_UNKNOWN, /* it cannot be known */
};

struct channel {
	/* constant */
	unsigned domain;
	uint8_t endpoint; /* its number at the server */
	bool extra;       /* beyond the number that was asked for */
	struct rmem *session;
	unsigned depth;        /* operations on one connection, at most */
	struct fabric_cq **cq; /* of its domain; *cq NULL: the owner has none now */
	void *owner;           /* what completions of its connections name */
	struct rmem_queue *queue;
	/* Tell the owner that the channel has changed; under the lock. */
	void (*wake)(struct rmem_queue *queue);

	/* what became of the server's end of the last connection.  [any] */
	_Atomic int peer_end; /* enum peer_end */

	/* under the session's lock */
	struct list node; /* in session->channels */
	enum channel_stage stage;
	struct fabric_channel *fabric; /* what the owner uses; only it changes this */
	uint32_t number;
	bool doomed;  /* the driver has aborted the channel */
	bool watched; /* its alive_fd is in the session's epoll set */
	bool ended;   /* the server said so, before it was connected */
	struct fabric_channel *fresh;
	struct connection_call *call;
	uint64_t retry_ns;
	struct backoff backoff;
	/* a thread that waits until it is connected for the first time; NULL: none */
	struct channel_waiter *waiter;
	unsigned resumes; /* of the session, when that thread asked for it */
	uint32_t joining; /* the number, for the thread that connects it */
};

/* A thread waits until a channel is connected for the first time. */
struct channel_waiter {
	uint64_t end_ns; /* it waits until then */
	int err;         /* why the channel cannot be connected; 0: it may be */
	char text[SESSION_TEXT_BYTES];
};

/* Connect a queue's channel for the first time.  Blocks for the session's time-out at most, and
 * drives the session meanwhile where no other thread does.  An extra channel that cannot be
 * connected now is connected later; with `may_wait` also one whose device is away.  [any],
 * without the lock */
int channel_open(struct channel *channel, bool may_wait);

extern const struct session_observer channel_observer;

/* The owner takes the new connection, if there is one: true.  Under the lock. */
bool channel_adopt(struct channel *channel);
/* The owner is going to free the connection: another one is wanted, at once if this one has
 * carried anything.  [owner], under the lock */
void channel_release(struct channel *channel, bool proven);
/* The session knows it from now on, or not any more; the owner frees its connections then.
 * Under the lock, which channel_remove() may release meanwhile. */
void channel_add(struct channel *channel);
void channel_remove(struct channel *channel);

/* A channel wants a channel, at once or after a while that grows each time. */
void channel_want(struct channel *channel, bool at_once);
/* The server says that the channel with this number has ended. */
void channels_ended(struct rmem *session, uint32_t number);

#endif
