/* SPDX-License-Identifier: BSD-3-Clause */
/* Driver: the operations of one event loop on one session.  What rmem.aio stands on; the loop's
 * thread alone may use it. */
#ifndef PYTHON_DRIVER_H
#define PYTHON_DRIVER_H

#include "python/module.h"

extern PyType_Spec driver_spec;

#define DRIVER_DEPTH 256 /* of its queue */

/* Session.driver(): it has no queue yet. */
PyObject *driver_open(PyObject *session, PyObject *);
/* Give it its queue, which it ends. */
void driver_attach(PyObject *driver, rmem_queue *queue);

#endif
