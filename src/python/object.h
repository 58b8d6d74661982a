/* SPDX-License-Identifier: BSD-3-Clause */
/* What all objects of the extension have: memory, the process that they belong to, and the calls
 * that are under way on them. */
#ifndef PYTHON_OBJECT_H
#define PYTHON_OBJECT_H

#include "python/module.h"

/* Count forks from now on.  Returns 0, or -1 with an exception set. */
int object_watch_forks(void);
/* The number of forks between the process that counts since then and this one. */
unsigned object_generation(void);

/* A new object of a type, all other members 0, or NULL with an exception set. */
void *object_new(PyTypeObject *type);
/* A tp_dealloc: end() the members of the object, then the object.  An exception may be on its way,
 * and stays set. */
void object_del(PyObject *object, void (*end)(PyObject *object));

/* This thread begins a call on an object that has to be there until its end. */
void object_enter(const void *object);
/* The latest of these calls ends. */
void object_leave(void);
/* Such a call of this thread is under way: what a destructor, a signal's handler or a conversion
 * does now must not wait for it. */
bool object_entered(const void *object);

#endif
