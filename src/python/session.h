/* SPDX-License-Identifier: BSD-3-Clause */
/* Session: any thread may use it. */
#ifndef PYTHON_SESSION_H
#define PYTHON_SESSION_H

#include "python/module.h"

#include <pythread.h>

struct lane;

struct session {
	PyObject_HEAD
	struct module *module;
	rmem *handle; /* NULL: closed */
	unsigned generation;
	unsigned calls; /* under way, without Python's lock */
	bool closing;
	struct lane *lanes;
	/* batches of synchronous calls take turns on one queue */
	PyThread_type_lock batch_turn;
	rmem_queue *batch_queue; /* NULL: not needed yet */
	uint64_t registrations;
	uint64_t registered_bytes;
	PyObject *weak_references;
};

extern PyType_Spec session_spec;

PyObject *session_open(PyObject *module, PyObject *args);

/* The session can be used.  Returns 0, or -1 with an exception set. */
int session_check(const struct session *session);
/* Begin a call that releases Python's lock: session_close() waits for it.  Returns as above. */
int session_enter(struct session *session);
void session_leave(struct session *session);

#endif
