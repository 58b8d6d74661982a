/* SPDX-License-Identifier: BSD-3-Clause */
/* The atomic atomic_device of a lease: the one place where its atomics are done, by all sessions.
 * The server decides it when the first of them asks, and the lease's handle keeps the
 * answer. */
#ifndef LIBRMEM_LEASE_ATOMIC_DEVICE_H
#define LIBRMEM_LEASE_ATOMIC_DEVICE_H

#include <stdatomic.h>

#include <rmem/rmem.h>

#include "librmem/session/connection.h"

#define HOME_TEXT_BYTES 192

enum atomic_device_state {
	HOME_UNKNOWN,
	HOME_KNOWN,
	HOME_REFUSED, /* by the server */
};

struct atomic_device {
	_Atomic unsigned wanted; /* an endpoint and one, 0: nobody asks.  [any] */
	_Atomic int state;       /* enum atomic_device_state.  [any] */
	/* not changed once it is known or refused */
	unsigned endpoints;         /* there, a bit each by their numbers; 0: none */
	int err;                    /* why it was refused */
	char text[HOME_TEXT_BYTES]; /* what to say when atomics cannot be done */
	/* under the session's lock */
	struct connection_call *call; /* asking; NULL: not now */
};

/* The endpoints that a queue's atomics on a part of the lease go through, a bit each;
 * `among` are those that the part is lent through.  [owner of the queue]
 *   -EAGAIN   the server is being asked: there will be news
 *   -ENOTSUP  this queue has no channel there, or the part is not lent there
 *   or what the server said; *ret_why then has the words, which live as long as the lease */
int atomic_device_find(struct rmem_queue *queue, struct rmem_lease *lease,
		       unsigned among, unsigned *ret_endpoints, const char **ret_why);
/* Ask for it, where a queue wants to know.  Under the lock. */
void atomic_device_work(struct rmem_lease *lease);
/* Nobody wants to know any more.  Under the lock. */
void atomic_device_forget(struct rmem_lease *lease);

/* Whether some channel of the queue can carry atomics.  [owner of the queue]
 *   -ENOTSUP  the text names a device and what it lacks */
int atomic_device_able(const struct rmem_queue *queue);

#endif
