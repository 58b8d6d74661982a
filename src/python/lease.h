/* SPDX-License-Identifier: BSD-3-Clause */
/* Lease: any thread may use it.  Its handle ends with the session, and is then not looked at. */
#ifndef PYTHON_LEASE_H
#define PYTHON_LEASE_H

#include "python/session.h"

struct lease {
	PyObject head;
	struct session *session;
	rmem_lease *handle; /* NULL: detached */
	unsigned uses;      /* calls and operations under way */
	PyObject *weak_references;
};

/* The object of a handle, which it takes over, also if there is no memory: then the handle ends
 * with the session. */
PyObject *lease_new(struct session *session, rmem_lease *handle);

/* The object of a handle, or None: a new reference. */
PyObject *lease_find(const struct session *session, const rmem_lease *handle);
/* The object has its handle no more, or is to end. */
void lease_forget(const struct session *session, const rmem_lease *handle);

/* Use the lease's handle, which is not detached meanwhile.  Returns 0, or -1 with an exception
 * set. */
int lease_use(struct lease *lease);
void lease_unuse(struct lease *lease);

/* lease_use() and session_enter(), and the ends of both. */
int lease_enter(struct lease *lease);
void lease_leave(struct lease *lease);

#endif
