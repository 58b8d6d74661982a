/* SPDX-License-Identifier: BSD-3-Clause */
/* What all objects of the extension have: memory, and the process that they belong to. */
#ifndef PYTHON_OBJECT_H
#define PYTHON_OBJECT_H

#include "python/module.h"

/* Count forks from now on.  Returns 0, or -1 with an exception set. */
int object_watch_forks(void);
/* The number of forks between the process that counts since then and this one. */
unsigned object_generation(void);

/* A new object of a type, all other members 0, or NULL with an exception set. */
void *object_new(PyTypeObject *type);
/* End an object whose members have been ended. */
void object_del(PyObject *object);

#endif
