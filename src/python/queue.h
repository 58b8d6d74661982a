/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue: one thread at a time may use it. */
#ifndef PYTHON_QUEUE_H
#define PYTHON_QUEUE_H

#include "python/module.h"

extern PyType_Spec queue_spec;

/* Session.queue(). */
PyObject *queue_open(PyObject *session, PyObject *args, PyObject *keywords);

#endif
