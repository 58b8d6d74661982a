/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls: the server calls of one event loop, of any sessions.  What rmem.aio stands on; the loop's
 * thread alone may use it. */
#ifndef PYTHON_CALLS_H
#define PYTHON_CALLS_H

#include "python/module.h"

extern PyType_Spec calls_spec;

/* calls(): a new one. */
PyObject *calls_new(PyObject *module, PyObject *);

#endif
