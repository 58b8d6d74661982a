// SPDX-License-Identifier: BSD-3-Clause
#include "python/lease_methods.h"

#include <errno.h>
#include <structmember.h>

#include "python/arguments.h"
#include "python/batch.h"
#include "python/failure.h"
#include "python/lease.h"
#include "python/memory.h"
#include "python/object.h"
#include "python/registry.h"
#include "python/staging.h"

static void lease_free(PyObject *object)
{
	struct lease *lease = (struct lease *)object;

	if (lease->weak_references)
		PyObject_ClearWeakRefs(object);
	if (lease->session && lease->handle)
		lease_forget(lease->session, lease->handle);
	Py_XDECREF((PyObject *)lease->session);
}

static void lease_del(PyObject *object)
{
	object_del(object, lease_free);
}

/* The end of a call on the lease: None, or NULL with an exception set. */
static PyObject *ended(struct lease *lease, int err)
{
	PyObject *result = NULL;

	if (err) {
		(void)failure_of_lease(lease->session->module, err, lease->handle);
	} else {
		Py_INCREF(Py_None);
		result = Py_None;
	}
	lease_leave(lease);
	return result;
}

/* ---- bytes ---- */

/* What was read goes to the memory of a GPU.  Returns the result, or NULL with an exception set. */
static PyObject *arrived(PyObject *result, struct staging *staging)
{
	PyObject *error = staging_copy_out(staging);

	if (!error)
		return result;
	PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_DECREF(error);
	Py_DECREF(result);
	return NULL;
}

static PyObject *transfer(struct lease *lease, enum rmem_opcode opcode,
			  PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
	static const struct parameters parameters = { { "memory", "offset" }, 2, 1 };
	PyObject *room[ARGUMENTS_MAX];
	PyObject *const *values = arguments_sort(&parameters, args, n, keywords, room);
	struct memory memory;
	uint64_t offset;
	PyObject *result;
	int err;

	if (!values || arguments_u64(values[1], &offset) ||
	    registry_take(lease->session, values[0], opcode == RMEM_OP_READ, &memory))
		return NULL;
	if (lease_enter(lease)) {
		memory_release(&memory);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	err = opcode == RMEM_OP_READ
		      ? rmem_read(lease->handle, offset, memory.addr, memory.bytes)
		      : rmem_write(lease->handle, offset, memory.addr, memory.bytes);
	Py_END_ALLOW_THREADS
	result = ended(lease, err);
	if (result && memory.staging && opcode == RMEM_OP_READ)
		result = arrived(result, memory.staging);
	memory_release(&memory);
	return result;
}

static PyObject *lease_read_into(PyObject *object, PyObject *const *args, Py_ssize_t n,
				 PyObject *keywords)
{
	return transfer((struct lease *)object, RMEM_OP_READ, args, n, keywords);
}

static PyObject *lease_write(PyObject *object, PyObject *const *args, Py_ssize_t n,
			     PyObject *keywords)
{
	return transfer((struct lease *)object, RMEM_OP_WRITE, args, n, keywords);
}

static PyObject *many(PyObject *object, enum rmem_opcode opcode, PyObject *const *args,
		      Py_ssize_t n, PyObject *keywords)
{
	static const struct parameters parameters = {
		{ "memories", "offsets", "bytes" }, 3, 2
	};
	PyObject *room[ARGUMENTS_MAX];
	PyObject *const *values = arguments_sort(&parameters, args, n, keywords, room);

	if (!values)
		return NULL;
	return batch_run((struct lease *)object, opcode, values[0], values[1],
			 values[2] ? values[2] : Py_None);
}

static PyObject *lease_read_many(PyObject *object, PyObject *const *args, Py_ssize_t n,
				 PyObject *keywords)
{
	return many(object, RMEM_OP_READ, args, n, keywords);
}

static PyObject *lease_write_many(PyObject *object, PyObject *const *args, Py_ssize_t n,
				  PyObject *keywords)
{
	return many(object, RMEM_OP_WRITE, args, n, keywords);
}

static PyObject *lease_write_notify(PyObject *object, PyObject *args,
				    PyObject *keywords)
{
	static char *names[] = { "memory", "offset", "value", NULL };
	struct lease *lease = (struct lease *)object;
	uint64_t offset = 0;
	uint32_t value = 0;
	struct memory memory;
	PyObject *source, *result;
	int err;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O&O&:write_notify", names,
					 &source, arguments_to_u64, &offset,
					 arguments_to_u32, &value) ||
	    registry_take(lease->session, source, false, &memory))
		return NULL;
	if (lease_enter(lease)) {
		memory_release(&memory);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	err = rmem_write_notify(lease->handle, offset, memory.addr, memory.bytes,
				value);
	Py_END_ALLOW_THREADS
	result = ended(lease, err);
	memory_release(&memory);
	return result;
}

/* ---- what the server does near its memory ---- */

static PyObject *lease_fill(PyObject *object, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "offset", "bytes", "value", NULL };
	struct lease *lease = (struct lease *)object;
	uint64_t offset, bytes;
	unsigned char value = 0;
	int err;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&O&|b:fill", names,
					 arguments_to_u64, &offset, arguments_to_u64,
					 &bytes, &value) ||
	    lease_enter(lease))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_fill(lease->handle, offset, bytes, RMEM_FILL_BYTE(value));
	Py_END_ALLOW_THREADS
	return ended(lease, err);
}

static PyObject *lease_copy(PyObject *object, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "source", "bytes", "offset", "source_offset", NULL };
	struct lease *lease = (struct lease *)object;
	uint64_t bytes, offset = 0, source_offset = 0;
	struct lease *source;
	PyObject *result;
	int err;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!O&|O&O&:copy", names,
					 Py_TYPE(object), &source, arguments_to_u64,
					 &bytes, arguments_to_u64, &offset,
					 arguments_to_u64, &source_offset) ||
	    lease_enter(lease))
		return NULL;
	if (lease_enter(source)) {
		lease_leave(lease);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	err = rmem_copy(lease->handle, offset, source->handle, source_offset, bytes);
	Py_END_ALLOW_THREADS
	result = ended(lease, err);
	lease_leave(source);
	return result;
}

/* A call that returns a number. */
static PyObject *numbered(struct lease *lease, int err, unsigned long long number)
{
	PyObject *none = ended(lease, err);

	if (!none)
		return NULL;
	Py_DECREF(none);
	return PyLong_FromUnsignedLongLong(number);
}

static PyObject *lease_crc32c(PyObject *object, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "offset", "bytes", NULL };
	struct lease *lease = (struct lease *)object;
	uint64_t offset, bytes;
	uint32_t crc = 0;
	int err;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&O&:crc32c", names,
					 arguments_to_u64, &offset, arguments_to_u64,
					 &bytes) ||
	    lease_enter(lease))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_crc32c(lease->handle, offset, bytes, &crc);
	Py_END_ALLOW_THREADS
	return numbered(lease, err, crc);
}

static PyObject *lease_compare_swap(PyObject *object, PyObject *args,
				    PyObject *keywords)
{
	static char *names[] = { "offset", "expected", "desired", NULL };
	struct lease *lease = (struct lease *)object;
	unsigned long long expected, desired;
	uint64_t offset, old = 0;
	int err;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&KK:compare_swap", names,
					 arguments_to_u64, &offset, &expected,
					 &desired) ||
	    lease_enter(lease))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_compare_swap(lease->handle, offset, expected, desired, &old);
	Py_END_ALLOW_THREADS
	return numbered(lease, err, old);
}

static PyObject *lease_fetch_add(PyObject *object, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "offset", "add", NULL };
	struct lease *lease = (struct lease *)object;
	unsigned long long add;
	uint64_t offset, old = 0;
	int err;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&K:fetch_add", names,
					 arguments_to_u64, &offset, &add) ||
	    lease_enter(lease))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_fetch_add(lease->handle, offset, add, &old);
	Py_END_ALLOW_THREADS
	return numbered(lease, err, old);
}

/* ---- calls on the lease ---- */

static PyObject *number_call(PyObject *object, PyObject *args, const char *format,
			     int (*function)(rmem_lease *, uint64_t))
{
	struct lease *lease = (struct lease *)object;
	uint64_t number;
	int err;

	if (!PyArg_ParseTuple(args, format, arguments_to_u64, &number) ||
	    lease_enter(lease))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	err = function(lease->handle, number);
	Py_END_ALLOW_THREADS
	return ended(lease, err);
}

static PyObject *lease_grow(PyObject *object, PyObject *args)
{
	return number_call(object, args, "O&:grow", rmem_grow);
}

static PyObject *lease_shrink(PyObject *object, PyObject *args)
{
	return number_call(object, args, "O&:shrink", rmem_shrink);
}

static PyObject *lease_renew(PyObject *object, PyObject *args)
{
	return number_call(object, args, "O&:renew", rmem_renew);
}

static PyObject *lease_keep(PyObject *object, PyObject *args)
{
	return number_call(object, args, "O&:keep", rmem_keep);
}

static PyObject *plain_call(PyObject *object, int (*function)(rmem_lease *))
{
	struct lease *lease = (struct lease *)object;
	int err;

	if (lease_enter(lease))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	err = function(lease->handle);
	Py_END_ALLOW_THREADS
	return ended(lease, err);
}

static PyObject *lease_watch(PyObject *object, PyObject *Py_UNUSED(args))
{
	return plain_call(object, rmem_watch);
}

static PyObject *lease_unwatch(PyObject *object, PyObject *Py_UNUSED(args))
{
	return plain_call(object, rmem_unwatch);
}

static PyObject *lease_rename(PyObject *object, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "name", "replace", NULL };
	struct lease *lease = (struct lease *)object;
	const char *name;
	int replace = 0;
	int err;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|$p:rename", names, &name,
					 &replace) ||
	    lease_enter(lease))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_rename(lease->handle, name, replace ? RMEM_RENAME_REPLACE : 0);
	Py_END_ALLOW_THREADS
	return ended(lease, err);
}

static PyObject *lease_share(PyObject *object, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "tenant", "write", NULL };
	struct lease *lease = (struct lease *)object;
	const char *tenant;
	unsigned rights;
	int write = 0;
	int err;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|$p:share", names, &tenant,
					 &write) ||
	    lease_enter(lease))
		return NULL;
	rights = RMEM_READ | (write ? RMEM_WRITE : 0);
	Py_BEGIN_ALLOW_THREADS
	err = rmem_share(lease->handle, tenant, rights);
	Py_END_ALLOW_THREADS
	return ended(lease, err);
}

static PyObject *lease_unshare(PyObject *object, PyObject *args)
{
	struct lease *lease = (struct lease *)object;
	const char *tenant;
	int err;

	if (!PyArg_ParseTuple(args, "s:unshare", &tenant) || lease_enter(lease))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_unshare(lease->handle, tenant);
	Py_END_ALLOW_THREADS
	return ended(lease, err);
}

/* ---- the end ---- */

/* A call that ends the handle, which nothing else may use then. */
static PyObject *last_call(PyObject *object, int (*function)(rmem_lease *))
{
	struct lease *lease = (struct lease *)object;
	struct session *session = lease->session;
	rmem_lease *handle = lease->handle;
	int err;

	if (!handle || !session->handle)
		Py_RETURN_NONE;
	if (lease->uses)
		return failure_raise(session->module, -EBUSY,
				     "calls or operations on the lease are under way");
	if (session_enter(session))
		return NULL;
	lease->handle = NULL;
	Py_BEGIN_ALLOW_THREADS
	err = function(handle);
	Py_END_ALLOW_THREADS
	session_leave(session);
	if (err) {
		lease->handle = handle; /* it is there still */
		return failure_of_lease(session->module, err, handle);
	}
	lease_forget(session, handle);
	Py_RETURN_NONE;
}

static PyObject *lease_detach(PyObject *object, PyObject *Py_UNUSED(args))
{
	return last_call(object, rmem_detach);
}

static PyObject *lease_destroy(PyObject *object, PyObject *Py_UNUSED(args))
{
	return last_call(object, rmem_destroy);
}

static PyObject *lease_begin(PyObject *object, PyObject *Py_UNUSED(args))
{
	if (lease_use((struct lease *)object))
		return NULL;
	lease_unuse((struct lease *)object);
	Py_INCREF(object);
	return object;
}

/* ---- state ---- */

static PyObject *lease_bytes(PyObject *object, void *Py_UNUSED(closure))
{
	struct lease *lease = (struct lease *)object;

	if (lease_use(lease))
		return NULL;
	lease_unuse(lease);
	return PyLong_FromUnsignedLongLong(rmem_lease_bytes(lease->handle));
}

static PyObject *lease_id(PyObject *object, void *Py_UNUSED(closure))
{
	struct lease *lease = (struct lease *)object;

	if (lease_use(lease))
		return NULL;
	lease_unuse(lease);
	return PyLong_FromUnsignedLongLong(rmem_lease_id(lease->handle));
}

static PyObject *lease_name(PyObject *object, void *Py_UNUSED(closure))
{
	struct lease *lease = (struct lease *)object;
	char name[RMEM_NAME_MAX + 1];

	if (lease_use(lease))
		return NULL;
	lease_unuse(lease);
	if (!rmem_lease_name(lease->handle, name, sizeof(name)))
		Py_RETURN_NONE;
	return PyUnicode_FromString(name);
}

static PyObject *lease_writable(PyObject *object, void *Py_UNUSED(closure))
{
	struct lease *lease = (struct lease *)object;

	if (lease_use(lease))
		return NULL;
	lease_unuse(lease);
	return PyBool_FromLong((rmem_lease_rights(lease->handle) & RMEM_WRITE) != 0);
}

static PyObject *lease_ended(PyObject *object, void *Py_UNUSED(closure))
{
	const struct lease *lease = (struct lease *)object;

	return PyBool_FromLong(!session_open_here(lease->session) || !lease->handle ||
			       rmem_lease_status(lease->handle));
}

static PyObject *lease_attached(PyObject *object, void *Py_UNUSED(closure))
{
	const struct lease *lease = (struct lease *)object;

	return PyBool_FromLong(lease->handle && session_open_here(lease->session));
}

static PyObject *lease_session(PyObject *object, void *Py_UNUSED(closure))
{
	PyObject *session = (PyObject *)((struct lease *)object)->session;

	Py_INCREF((PyObject *)session);
	return session;
}

#define FAST METH_FASTCALL | METH_KEYWORDS
#define KEYWORDS METH_VARARGS | METH_KEYWORDS

static PyMethodDef lease_methods[] = {
	{ "__enter__", lease_begin, METH_NOARGS, NULL },
	{ "__exit__", lease_detach, METH_VARARGS, NULL },
	{ "__reduce__", failure_reduce, METH_NOARGS, NULL },
	{ "read_into", METHOD(lease_read_into), FAST,
	  "read_into($self, memory, offset=0)\n--\n\n"
	  "Read from the offset into all of a bytearray, numpy array, torch tensor, "
	  "..., in place.\n\n"
	  "Its bytes must be contiguous and can be written.  Until the call ends "
	  "nothing else may\n"
	  "use them; ndarray.resize(refcheck=False) would free them." },
	{ "write", METHOD(lease_write), FAST,
	  "write($self, memory, offset=0)\n--\n\n"
	  "Write the bytes of an object to the offset, and wait until they are "
	  "there." },
	{ "read_many", METHOD(lease_read_many), FAST,
	  "read_many($self, memories, offsets, bytes=None)\n--\n\n"
	  "Read many ranges in one submission.\n\n"
	  "  memories  a list of objects, or one that has the memory of all, one after "
	  "the other\n"
	  "  offsets   of the ranges: integers, or an array of 64-bit ones\n"
	  "  bytes     of each range, if memories is one object; None: its equal "
	  "parts\n\n"
	  "If one fails, the rest has ended too when the exception is raised." },
	{ "write_many", METHOD(lease_write_many), FAST,
	  "write_many($self, memories, offsets, bytes=None)\n--\n\n"
	  "Write many ranges in one submission; arguments as for read_many()." },
	{ "write_notify", METHOD(lease_write_notify), KEYWORDS,
	  "write_notify($self, memory, offset=0, value=0)\n--\n\n"
	  "Write, then notify the sessions that watch the lease." },
	{ "fill", METHOD(lease_fill), KEYWORDS,
	  "fill($self, offset, bytes, value=0)\n--\n\nLet the server fill a range with "
	  "one "
	  "byte." },
	{ "copy", METHOD(lease_copy), KEYWORDS,
	  "copy($self, source, bytes, offset=0, source_offset=0)\n--\n\n"
	  "Let the server copy a range of another lease, or of this one, to the "
	  "offset." },
	{ "crc32c", METHOD(lease_crc32c), KEYWORDS,
	  "crc32c($self, offset, bytes)\n--\n\nLet the server compute the CRC-32C of a "
	  "range." },
	{ "compare_swap", METHOD(lease_compare_swap), KEYWORDS,
	  "compare_swap($self, offset, expected, desired)\n--\n\n"
	  "Replace a 64-bit number, if it is the expected one.  Returns the number "
	  "found." },
	{ "fetch_add", METHOD(lease_fetch_add), KEYWORDS,
	  "fetch_add($self, offset, add)\n--\n\n"
	  "Add to a 64-bit number, modulo 2**64.  Returns the number found." },
	{ "grow", lease_grow, METH_VARARGS,
	  "grow($self, bytes, /)\n--\n\nMake the lease longer; what is added reads as "
	  "zero." },
	{ "shrink", lease_shrink, METH_VARARGS,
	  "shrink($self, bytes, /)\n--\n\nMake the lease shorter." },
	{ "renew", lease_renew, METH_VARARGS,
	  "renew($self, ttl_ms, /)\n--\n\nStart the time to live again, in "
	  "milliseconds." },
	{ "keep", lease_keep, METH_VARARGS,
	  "keep($self, ttl_ms, /)\n--\n\nAs renew(), and the session goes on to renew "
	  "it by "
	  "itself." },
	{ "rename", METHOD(lease_rename), KEYWORDS,
	  "rename($self, name, *, replace=False)\n--\n\nName the lease, or change its "
	  "name." },
	{ "share", METHOD(lease_share), KEYWORDS,
	  "share($self, tenant, *, write=False)\n--\n\nLet another tenant attach the "
	  "lease." },
	{ "unshare", lease_unshare, METH_VARARGS,
	  "unshare($self, tenant, /)\n--\n\nEnd what share() began." },
	{ "watch", lease_watch, METH_NOARGS,
	  "watch($self, /)\n--\n\nLet the session take the lease's notifications." },
	{ "unwatch", lease_unwatch, METH_NOARGS,
	  "unwatch($self, /)\n--\n\nEnd what watch() began." },
	{ "detach", lease_detach, METH_NOARGS,
	  "detach($self, /)\n--\n\nEnd the use here: a named lease lives on, another "
	  "one is "
	  "freed.\n\n"
	  "Busy: calls or operations on it are under way." },
	{ "destroy", lease_destroy, METH_NOARGS,
	  "destroy($self, /)\n--\n\nEnd the lease for all sessions." },
	{ 0 },
};

static PyGetSetDef lease_getset[] = {
	{ "bytes", lease_bytes, NULL, "Its length in bytes.", NULL },
	{ "id", lease_id, NULL, "A number that the server never uses twice.", NULL },
	{ "name", lease_name, NULL, "Its name, or None.", NULL },
	{ "writable", lease_writable, NULL, "True if it may be written.", NULL },
	{ "ended", lease_ended, NULL, "True once it cannot be used any more.", NULL },
	{ "attached", lease_attached, NULL,
	  "True until detach(), destroy() or the session's end.", NULL },
	{ "session", lease_session, NULL, "The Session.", NULL },
	{ 0 },
};

static PyMemberDef lease_members[] = {
	{ "__weaklistoffset__", T_PYSSIZET, offsetof(struct lease, weak_references),
	  READONLY, NULL },
	{ 0 },
};

static PyType_Slot lease_slots[] = {
	{ Py_tp_doc, "Memory lent to a session, of Session.alloc() or attach(); a "
		     "context manager that\n"
		     "detaches it.  Any thread may use it.\n\n"
		     "There is no memoryview of a lease, nor are there slices: its "
		     "memory is at the server,\n"
		     "and has no addresses here.  An object that is dropped without "
		     "detach() or destroy()\n"
		     "leaves its lease to the session, which ends it with itself." },
	{ Py_tp_dealloc, lease_del },
	{ Py_tp_methods, lease_methods },
	{ Py_tp_getset, lease_getset },
	{ Py_tp_members, lease_members },
	{ 0 },
};

PyType_Spec lease_spec = {
	.name = "rmem._rmem.Lease",
	.basicsize = sizeof(struct lease),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION |
		 Py_TPFLAGS_IMMUTABLETYPE,
	.slots = lease_slots,
};
