/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffer: registered memory, of its own or of an object that it holds.  Any thread may use it. */
#ifndef PYTHON_BUFFER_H
#define PYTHON_BUFFER_H

#include "python/session.h"

extern PyType_Spec buffer_spec;

/* Session.buffer(), Session.register(). */
PyObject *buffer_alloc(PyObject *session, PyObject *bytes);
PyObject *buffer_register(PyObject *session, PyObject *memory);

#endif
