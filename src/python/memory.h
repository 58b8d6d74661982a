/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a Python object: held, so that it neither moves nor ends, from memory_take() to
 * memory_release().  Nothing is copied, but for memory of a GPU. */
#ifndef PYTHON_MEMORY_H
#define PYTHON_MEMORY_H

#include "python/registration.h"

struct memory {
	void *addr;
	uint64_t bytes;
	Py_buffer view;                    /* view.obj is NULL: there is none */
	PyObject *capsule;                 /* of DLPack; NULL: there is none */
	struct registration *registration; /* that is held too; NULL: there is none */
	struct staging *staging; /* addr is of this block; NULL: there is none */
};

/* Take the memory of what has the buffer protocol or __dlpack__.  Returns 0, or -1 with an
 * exception set: BufferError if the memory is not contiguous, on a GPU or, where `writable`,
 * read-only. */
int memory_take(PyObject *object, bool writable, struct memory *ret_memory);
/* As above, but also of a GPU: *ret_device is its number, and addr an address of it.  Else -1. */
int memory_take_any(PyObject *object, bool writable, int *ret_device,
		    struct memory *ret_memory);
void memory_release(struct memory *memory);
/* A tp_traverse of what is held. */
int memory_traverse(const struct memory *memory, visitproc visit, void *arg);

#endif
