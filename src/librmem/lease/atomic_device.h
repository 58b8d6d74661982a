/* SPDX-License-Identifier: BSD-3-Clause */
/* The atomic device of a lease: the one place where its atomics are done, by all sessions.
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

/* Ask for it, where a queue wants to know.  Under the lock. */
void atomic_device_work(struct rmem_lease *lease);
/* Nobody wants to know any more.  Under the lock. */
void atomic_device_forget(struct rmem_lease *lease);

#endif
