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
	bool more;                         /* one of these is held */
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
/* Take the memory of what has the buffer protocol.  Returns false with an exception set: the object
 * does not have it, or refuses; nothing is held. */
static inline bool memory_take_buffer(PyObject *object, bool writable,
				      struct memory *memory)
{
	int flags = PyBUF_ANY_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);

	memory->more = false;
	memory->capsule = NULL;
	memory->registration = NULL;
	memory->staging = NULL;
	if (PyObject_GetBuffer(object, &memory->view, flags))
		return false;
	memory->addr = memory->view.buf;
	memory->bytes = (uint64_t)memory->view.len;
	return true;
}

/* Give back what is held beside the view. */
void memory_release_more(struct memory *memory);

static inline void memory_release(struct memory *memory)
{
	if (memory->more)
		memory_release_more(memory);
	PyBuffer_Release(&memory->view);
}

/* A tp_traverse of what is held. */
int memory_traverse(const struct memory *memory, visitproc visit, void *arg);

#endif
