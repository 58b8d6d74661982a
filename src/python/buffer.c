// SPDX-License-Identifier: BSD-3-Clause
#include "python/buffer.h"

#include <errno.h>
#include <structmember.h>
#include <sys/mman.h>

#include "python/arguments.h"
#include "python/dlpack.h"
#include "python/failure.h"
#include "python/object.h"
#include "python/memory.h"

struct buffer {
	PyObject head;
	struct session *session;
	/* NULL: closed; ends with the session, and is then not looked at */
	rmem_buffer *handle;
	struct memory memory; /* held, of an object; else our own mapping */
	bool mapped;
	bool writable;
	bool closing; /* without Python's lock */
	Py_ssize_t exports;
	PyObject *weak_references;
};

static struct buffer *buffer_new(struct session *session)
{
	struct buffer *buffer = object_new(session->module->buffer);

	if (buffer) {
		Py_INCREF((PyObject *)session);
		buffer->session = session;
	}
	return buffer;
}

/* Register the memory, and return the buffer; or end it, and return NULL with an exception set. */
static PyObject *registered(struct buffer *buffer)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	struct session *session = buffer->session;
	int err;

	if (session_enter(session)) {
		Py_DECREF((PyObject *)buffer);
		return NULL;
	}
	params.addr = buffer->memory.addr;
	params.bytes = buffer->memory.bytes;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_buffer_create(session->handle, &params, &buffer->handle);
	Py_END_ALLOW_THREADS
	session_leave(session);
	if (err) {
		(void)failure_of_call(session->module, err);
		Py_DECREF((PyObject *)buffer);
		return NULL;
	}
	session->n_registrations++;
	session->registered_bytes += buffer->memory.bytes;
	return (PyObject *)buffer;
}

PyObject *buffer_alloc(PyObject *session, PyObject *bytes)
{
	struct buffer *buffer;
	uint64_t n;

	if (arguments_u64(bytes, &n))
		return NULL;
	if (!n || n > PY_SSIZE_T_MAX) {
		PyErr_SetString(PyExc_ValueError, "bytes is 0 or too large");
		return NULL;
	}
	buffer = buffer_new((struct session *)session);
	if (!buffer)
		return NULL;
	/* not librmem's: memory that was exported must outlive the session */
	buffer->memory.addr = mmap(NULL, n, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer->memory.addr == MAP_FAILED) {
		Py_DECREF((PyObject *)buffer);
		return PyErr_NoMemory();
	}
	buffer->memory.bytes = n;
	buffer->mapped = true;
	buffer->writable = true;
	return registered(buffer);
}

PyObject *buffer_register(PyObject *session, PyObject *memory)
{
	struct buffer *buffer = buffer_new((struct session *)session);

	if (!buffer)
		return NULL;
	buffer->writable = true;
	if (memory_take(memory, true, &buffer->memory)) {
		PyErr_Clear();
		buffer->writable = false;
		if (memory_take(memory, false, &buffer->memory)) {
			Py_DECREF((PyObject *)buffer);
			return NULL;
		}
	}
	return registered(buffer);
}

/* Returns 0, or the error of rmem_buffer_free(). */
static int deregister(struct buffer *buffer)
{
	rmem_buffer *handle = buffer->handle;
	struct session *session = buffer->session;
	int err;

	if (!handle || !session_open_here(session))
		return 0;
	session_hold(session);
	buffer->handle = NULL;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_buffer_free(handle);
	Py_END_ALLOW_THREADS
	session_leave(session);
	if (err)
		buffer->handle = handle;
	else
		session->registered_bytes -= buffer->memory.bytes;
	return err;
}

static void forget(struct buffer *buffer)
{
	if (buffer->mapped)
		(void)munmap(buffer->memory.addr, buffer->memory.bytes);
	buffer->mapped = false;
	memory_release(&buffer->memory);
	buffer->memory = (struct memory){ 0 };
}

static PyObject *buffer_close(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct buffer *buffer = (struct buffer *)object;
	int err;

	if (buffer->exports) {
		PyErr_Format(PyExc_BufferError,
			     "the memory is in use by %zd views, arrays or operations",
			     buffer->exports);
		return NULL;
	}
	if (buffer->closing)
		Py_RETURN_NONE;
	buffer->closing = true;
	err = deregister(buffer);
	buffer->closing = false;
	if (err)
		return failure_of_call(buffer->session->module, err);
	forget(buffer);
	Py_RETURN_NONE;
}

static int buffer_traverse(PyObject *object, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(object));
	return memory_traverse(&((struct buffer *)object)->memory, visit, arg);
}

static int buffer_clear(PyObject *object)
{
	struct buffer *buffer = (struct buffer *)object;

	/* memory that operations use stays, and so does its registration: freed, it would come back
	 * at the same address with a registration of pages that are lost */
	if (!deregister(buffer) && buffer->memory.addr != MAP_FAILED)
		forget(buffer);
	return 0;
}

static void buffer_free(PyObject *object)
{
	struct buffer *buffer = (struct buffer *)object;

	if (buffer->weak_references)
		PyObject_ClearWeakRefs(object);
	(void)buffer_clear(object);
	Py_DECREF((PyObject *)buffer->session);
}

static void buffer_del(PyObject *object)
{
	object_del(object, buffer_free);
}

static int buffer_export(PyObject *object, Py_buffer *view, int flags)
{
	struct buffer *buffer = (struct buffer *)object;

	if (!buffer->memory.addr || buffer->closing) {
		PyErr_SetString(PyExc_BufferError, "the buffer is closed");
		view->obj = NULL;
		return -1;
	}
	if (PyBuffer_FillInfo(view, object, buffer->memory.addr,
			      (Py_ssize_t)buffer->memory.bytes, !buffer->writable,
			      flags))
		return -1;
	buffer->exports++;
	return 0;
}

static void export_end(PyObject *object)
{
	((struct buffer *)object)->exports--;
}

static void buffer_unexport(PyObject *object, Py_buffer *Py_UNUSED(view))
{
	export_end(object);
}

static PyObject *buffer_dlpack(PyObject *object, PyObject *Py_UNUSED(args),
			       PyObject *Py_UNUSED(keywords))
{
	struct buffer *buffer = (struct buffer *)object;
	PyObject *capsule;

	if (!buffer->memory.addr || buffer->closing || !buffer->writable) {
		PyErr_SetString(PyExc_BufferError, "the buffer is closed or read-only");
		return NULL;
	}
	buffer->exports++;
	capsule = dlpack_give(object, buffer->memory.addr, buffer->memory.bytes,
			      export_end);
	if (!capsule)
		buffer->exports--;
	return capsule;
}

static PyObject *buffer_device(PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(keywords))
{
	return Py_BuildValue("ii", DLPACK_CPU, 0);
}

static PyObject *buffer_begin(PyObject *object, PyObject *Py_UNUSED(args))
{
	Py_INCREF(object);
	return object;
}

static Py_ssize_t buffer_length(PyObject *object)
{
	return (Py_ssize_t)((struct buffer *)object)->memory.bytes;
}

static PyObject *buffer_address(PyObject *object, void *Py_UNUSED(closure))
{
	return PyLong_FromVoidPtr(((struct buffer *)object)->memory.addr);
}

static PyObject *buffer_exports(PyObject *object, void *Py_UNUSED(closure))
{
	return PyLong_FromSsize_t(((struct buffer *)object)->exports);
}

static PyMethodDef buffer_methods[] = {
	{ "__enter__", buffer_begin, METH_NOARGS, NULL },
	{ "__exit__", buffer_close, METH_VARARGS, NULL },
	{ "__reduce__", failure_reduce, METH_NOARGS, NULL },
	{ "__dlpack__", METHOD(buffer_dlpack), METH_VARARGS | METH_KEYWORDS,
	  "The memory as a tensor of bytes." },
	{ "__dlpack_device__", buffer_device, METH_NOARGS, NULL },
	{ "close", buffer_close, METH_NOARGS,
	  "close($self, /)\n--\n\nEnd the registration and the memory.\n\n"
	  "BufferError: memoryviews, arrays, tensors or operations use it still." },
	{ 0 },
};

static PyGetSetDef buffer_getset[] = {
	{ "address", buffer_address, NULL, "The address of the first byte.", NULL },
	{ "exports", buffer_exports, NULL,
	  "How many views, tensors and operations use it.", NULL },
	{ 0 },
};

static PyMemberDef buffer_members[] = {
	{ "__weaklistoffset__", T_PYSSIZET, offsetof(struct buffer, weak_references),
	  READONLY, NULL },
	{ 0 },
};

static PyType_Slot buffer_slots[] = {
	{ Py_tp_doc,
	  "Registered memory, of Session.buffer() or Session.register().\n\n"
	  "It has the buffer protocol and DLPack, and is a context manager.  Any "
	  "thread\n"
	  "may use it.  After the session's end the memory is still there." },
	{ Py_tp_dealloc, buffer_del },
	{ Py_tp_traverse, buffer_traverse },
	{ Py_tp_clear, buffer_clear },
	{ Py_tp_methods, buffer_methods },
	{ Py_tp_getset, buffer_getset },
	{ Py_tp_members, buffer_members },
	{ Py_sq_length, buffer_length },
	{ Py_bf_getbuffer, buffer_export },
	{ Py_bf_releasebuffer, buffer_unexport },
	{ 0 },
};

PyType_Spec buffer_spec = {
	.name = "rmem._rmem.Buffer",
	.basicsize = sizeof(struct buffer),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
		 Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = buffer_slots,
};
