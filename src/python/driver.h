/* SPDX-License-Identifier: BSD-3-Clause */
/* Driver: the operations of one event loop on one session.  What rmem.aio stands on; the loop's
 * thread alone may use it. */
#ifndef PYTHON_DRIVER_H
#define PYTHON_DRIVER_H

#include "python/lane.h"

extern PyType_Spec driver_spec;

#define DRIVER_DEPTH 256 /* of its queue */

/* Give it its queue, which it ends. */
void driver_attach(PyObject *driver, rmem_queue *queue);
/* It is open, and of this loop. */
bool driver_is_of(PyObject *driver, const PyObject *loop);
/* Begin an operation; operands may be NULL.  Returns an Operation, or NULL with an exception
 * set. */
PyObject *driver_begin(PyObject *driver, enum rmem_opcode opcode, PyObject *lease,
		       PyObject *memory, uint64_t offset,
		       const struct operands *operands);

#endif
