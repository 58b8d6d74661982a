/* SPDX-License-Identifier: BSD-3-Clause */
/* Operation: what one operation or many of an event loop are awaited by.  It has the protocol of
 * asyncio.Future, and ends with the last of its operations: when an await that was cancelled has
 * ended, its memory is free.  The loop's thread alone may use it. */
#ifndef PYTHON_OPERATION_H
#define PYTHON_OPERATION_H

#include "python/module.h"

extern PyType_Spec operation_spec;

struct operation {
	PyObject head;
	const struct module *module;
	PyObject *loop;
	PyObject *driver;  /* NULL: it has ended */
	uint64_t *cookies; /* of its operations */
	uint64_t cookie;   /* if it is one */
	unsigned n;        /* of cookies */
	unsigned left;     /* that have not ended */
	PyObject *result;
	PyObject *error;     /* the first one */
	PyObject *message;   /* of cancel(); NULL: it was not called */
	PyObject *callbacks; /* a list of (function, context), or NULL */
	PyObject *weak_references;
	bool cancelled;
	bool unseen;   /* the error */
	char blocking; /* a task is about to wait */
};

/* A new one, of n operations, all of which have to be given their cookies or operation_drop() has
 * to be called.  Returns NULL with an exception set. */
struct operation *operation_new(const struct module *module, PyObject *driver,
				PyObject *loop, unsigned n);
/* One of its operations has ended, with a result, or an error, or neither. */
void operation_part_ended(struct operation *operation, PyObject *result,
			  PyObject *error);
/* n of them have ended before they were submitted: tell it in the loop's next turn.  Returns 0, or
 * -1 with an exception set. */
int operation_drop(struct operation *operation, unsigned n);
/* The driver has ended with one of them outstanding, in any thread. */
void operation_abandon(struct operation *operation, PyObject *error);

#endif
