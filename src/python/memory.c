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
	struct memory memory = { 0 };
	struct dlpack dlpack = { .device = -1 };
	int flags = PyBUF_ANY_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);

	if (!PyObject_CheckBuffer(object)) {
		if (dlpack_take(object, writable, &dlpack))
			return -1;
		memory.capsule = dlpack.capsule;
		memory.addr = dlpack.addr;
		memory.bytes = dlpack.bytes;
	} else if (PyObject_GetBuffer(object, &memory.view, flags)) {
		explain(object, writable);
		return -1;
	} else {
		memory.addr = memory.view.buf;
		memory.bytes = (uint64_t)memory.view.len;
	}
	*ret_memory = memory;
	*ret_device = dlpack.device;
	return 0;
}

int memory_take(PyObject *object, bool writable, struct memory *ret_memory)
{
	struct memory memory;
	int device;

	if (memory_take_any(object, writable, &device, &memory))
		return -1;
	if (device >= 0) {
		memory_release(&memory);
		PyErr_SetString(
			PyExc_BufferError,
			"the tensor is on a GPU, where this call takes memory of "
			"the host: cpu() makes a copy there");
		return -1;
	}
	*ret_memory = memory;
	return 0;
}

void memory_release(struct memory *memory)
{
	if (memory->registration)
		registration_release(memory->registration);
	memory->registration = NULL;
	if (memory->staging)
		staging_give_back(memory->staging);
	memory->staging = NULL;
	if (memory->view.obj)
		PyBuffer_Release(&memory->view);
	Py_CLEAR(memory->capsule);
}

int memory_traverse(const struct memory *memory, visitproc visit, void *arg)
{
	Py_VISIT(memory->view.obj);
	Py_VISIT(memory->capsule);
	return 0;
}
