/* SPDX-License-Identifier: BSD-3-Clause */
/* Session: any thread may use it. */
#ifndef PYTHON_SESSION_H
#define PYTHON_SESSION_H

#include "python/module.h"

#include <pythread.h>

#include "python/device_range.h"
#include "python/registration.h"
#include "python/staging.h"

/* What ends before its session does. */
struct ending {
	void (*end)(struct ending *ending); /* calls session_drop() */
	struct ending *next;
	struct ending **link;
};

struct session {
	PyObject head;
	struct module *module;
	rmem *handle; /* NULL: closed */
	unsigned generation;
	unsigned calls; /* under way, without Python's lock */
	bool closing;
	unsigned begun;             /* calls of event loops without an answer */
	unsigned long begun_thread; /* of the latest of these */
	struct ending *endings;
	/* batches of synchronous calls take turns on one queue */
	PyThread_type_lock batch_turn;
	unsigned long batch_thread; /* whose turn it is; 0: nobody's */
	rmem_queue *batch_queue;    /* NULL: not needed yet */
	PyObject *leases; /* weak references to Lease objects, by their handles */
	struct registrations registrations;
	uint64_t n_registrations;
	uint64_t registration_hits;
	uint64_t registered_bytes;
	uint64_t copied_bytes; /* by librmem, when it was last asked */
	struct device_ranges device_ranges;
	struct stagings stagings;
	uint64_t pinned_copies;
	uint64_t pinned_bytes; /* copied so */
	PyObject *weak_references;
};

/* The object of a handle, which it takes over: without memory the session is closed.  Returns NULL
 * with an exception set. */
PyObject *session_new(struct module *module, rmem *handle);
/* No call is under way: the object has the handle no more, and the caller closes it. */
void session_end(struct session *session);

/* The bytes that were copied on this host, by librmem or through pinned buffers. */
uint64_t session_copied(struct session *session);

void session_add(struct session *session, struct ending *ending);
void session_drop(struct ending *ending);

/* The session is open, and of this process. */
bool session_open_here(const struct session *session);
/* The session can be used.  Returns 0, or -1 with an exception set. */
int session_check(const struct session *session);
/* Begin a call that releases Python's lock: session_close() waits for it.  Returns as above. */
int session_enter(struct session *session);
/* The same of a session that was checked. */
void session_hold(struct session *session);
void session_leave(struct session *session);

#endif
