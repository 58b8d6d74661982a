/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors by DLPack, https://dmlc.github.io/dlpack: capsules that were given, and capsules of our
 * own memory. */
#ifndef PYTHON_DLPACK_H
#define PYTHON_DLPACK_H

#include "python/module.h"

/* types of devices */
#define DLPACK_CPU 1
#define DLPACK_CUDA 2
#define DLPACK_CUDA_HOST 3 /* pinned memory of this host */

struct dlpack {
	PyObject *capsule;
	void *addr;
	uint64_t bytes;
	int device; /* of CUDA, whose memory it is; -1: of this host */
};

/* Take the memory of an object's __dlpack__().  It stays until the capsule is given back by
 * Py_DECREF().  Returns 0, or -1 with an exception set: BufferError if the memory is not
 * contiguous, on another device or, where `writable`, known to be read-only. */
int dlpack_take(PyObject *object, bool writable, struct dlpack *ret_dlpack);

/* A capsule of bytes, which holds a reference to `owner`.  `ended` is called, with Python's lock,
 * when the consumer has done with it. */
PyObject *dlpack_give(PyObject *owner, void *addr, uint64_t bytes,
		      void (*ended)(PyObject *owner));

#endif
