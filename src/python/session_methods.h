/* SPDX-License-Identifier: BSD-3-Clause */
/* The type Session. */
#ifndef PYTHON_SESSION_METHODS_H
#define PYTHON_SESSION_METHODS_H

#include "python/module.h"

extern PyType_Spec session_spec;

/* open(uri, timeout_ms, client, tenant_key) */
PyObject *session_open(PyObject *module, PyObject *args);

#endif
