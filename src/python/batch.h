/* SPDX-License-Identifier: BSD-3-Clause */
/* Many operations of one synchronous call: one submission, as far as the queue is deep enough. */
#ifndef PYTHON_BATCH_H
#define PYTHON_BATCH_H

#include "python/lease.h"

/* Lease.read_many(), Lease.write_many().
 *   memories  one object with the memory of all, one after the other, or a sequence of objects
 *   offsets   a sequence of integers, or a buffer of 64-bit ones
 *   bytes     of each, if there is one memory; None: it is split into equal parts
 * Returns None, or NULL with the exception of the first one that failed; then all have ended. */
PyObject *batch_run(struct lease *lease, enum rmem_opcode opcode, PyObject *memories,
		    PyObject *offsets, PyObject *bytes);

#endif
