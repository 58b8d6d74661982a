// SPDX-License-Identifier: BSD-3-Clause
#include "python/memory.h"

#include "python/dlpack.h"
#include "python/staging.h"

/* Replace the exception of a buffer that was refused by one that says what to do. */
static void explain(PyObject *object, bool writable)
{
	Py_buffer view;

	if (!PyErr_ExceptionMatches(PyExc_BufferError) &&
	    !PyErr_ExceptionMatches(PyExc_ValueError))
		return;
	PyErr_Clear();
	if (PyObject_GetBuffer(object, &view, PyBUF_FULL_RO))
		return;
	if (writable && view.readonly)
		PyErr_Format(PyExc_BufferError, "the memory of %R is read-only",
			     (PyObject *)Py_TYPE(object));
	else
		PyErr_Format(PyExc_BufferError,
			     "the memory of %R is not contiguous: "
			     "numpy.ascontiguousarray() makes a "
			     "copy that is",
			     (PyObject *)Py_TYPE(object));
	PyBuffer_Release(&view);
}

int memory_take_any(PyObject *object, bool writable, int *ret_device,
		    struct memory *ret_memory)
{
	struct dlpack dlpack = { .device = -1 };

	if (memory_take_buffer(object, writable, ret_memory)) {
		*ret_device = -1;
		return 0;
	}
	ret_memory->view.obj = NULL;
	if (PyObject_CheckBuffer(object)) {
		explain(object, writable);
		return -1;
	}
	PyErr_Clear();
	if (dlpack_take(object, writable, &dlpack))
		return -1;
	ret_memory->more = true;
	ret_memory->capsule = dlpack.capsule;
	ret_memory->addr = dlpack.addr;
	ret_memory->bytes = dlpack.bytes;
	*ret_device = dlpack.device;
	return 0;
}

int memory_take(PyObject *object, bool writable, struct memory *ret_memory)
{
	int device;

	if (memory_take_any(object, writable, &device, ret_memory))
		return -1;
	if (device >= 0) {
		memory_release(ret_memory);
		PyErr_SetString(
			PyExc_BufferError,
			"the tensor is on a GPU, where this call takes memory of "
			"the host: cpu() makes a copy there");
		return -1;
	}
	return 0;
}

void memory_release_more(struct memory *memory)
{
	if (memory->registration)
		registration_release(memory->registration);
	memory->registration = NULL;
	if (memory->staging)
		staging_give_back(memory->staging);
	memory->staging = NULL;
	memory->more = false;
	Py_CLEAR(memory->capsule);
}

int memory_traverse(const struct memory *memory, visitproc visit, void *arg)
{
	Py_VISIT(memory->view.obj);
	Py_VISIT(memory->capsule);
	return 0;
}
