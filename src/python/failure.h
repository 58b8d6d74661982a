/* SPDX-License-Identifier: BSD-3-Clause */
/* Exceptions by errno: those of rmem.errors. */
#ifndef PYTHON_FAILURE_H
#define PYTHON_FAILURE_H

#include "python/module.h"

/* A new exception for a status, -errno, or NULL with another one set. */
PyObject *failure_new(const struct module *module, int status, const char *text,
		      enum rmem_reason reason);

/* Raise it.  Returns NULL. */
void *failure_raise(const struct module *module, int status, const char *text);
/* Raise what the thread's last call of librmem returned, with its text.  Returns NULL. */
void *failure_of_call(const struct module *module, int status);
/* As above; `lease` may have ended, and tells why. */
void *failure_of_lease(const struct module *module, int status,
		       const rmem_lease *lease);

/* An object of the parent process.  Returns NULL. */
void *failure_forked(const struct module *module);

/* __reduce__ of what cannot be pickled. */
PyObject *failure_reduce(PyObject *self, PyObject *);

#endif
