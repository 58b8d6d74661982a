/* SPDX-License-Identifier: BSD-3-Clause */
/* Cache: a client of a cache of librmem-cache.  Any thread may use it: they take turns, and nobody
 * waits for a server in its turn, but for list(). */
#ifndef PYTHON_CACHE_H
#define PYTHON_CACHE_H

#include "python/module.h"

extern PyType_Spec cache_spec;

/* What rmem.Cache() calls. */
PyObject *cache_open(PyObject *module, PyObject *args);

#endif
