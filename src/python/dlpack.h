/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors by DLPack, https://dmlc.github.io/dlpack: capsules that were given, and capsules of our
 * own memory. */
#ifndef PYTHON_DLPACK_H
#define PYTHON_DLPACK_H

#include "python/module.h"

#define DLPACK_CPU 1

/* Take the memory of an object's __dlpack__().  It stays until the capsule is given back by
 * Py_DECREF().  Returns 0, or -1 with an exception set: BufferError if the memory is not
 * contiguous, on another device or, where `writable`, known to be read-only. */
int dlpack_take(PyObject *object, bool writable, PyObject **ret_capsule,
		void **ret_addr, uint64_t *ret_bytes);

/* A capsule of bytes, which holds a reference to `owner`.  `ended` is called, with Python's lock,
 * when the consumer has done with it. */
PyObject *dlpack_give(PyObject *owner, void *addr, uint64_t bytes,
		      void (*ended)(PyObject *owner));

#endif
