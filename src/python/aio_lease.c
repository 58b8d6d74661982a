// SPDX-License-Identifier: BSD-3-Clause
#include "python/aio_lease.h"

#include <structmember.h>

#include "python/arguments.h"
#include "python/driver.h"
#include "python/failure.h"
#include "python/object.h"

struct aio_lease {
	PyObject head;
	struct lease *sync;
	PyObject *driver; /* of the loop that it was used in last; NULL: none */
	PyObject *weak_references;
};

static PyObject *aio_lease_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "lease", NULL };
	struct module *module = module_of_type(type);
	struct aio_lease *lease;
	PyObject *sync;

	if (!module || module_import_asyncio(module) ||
	    !PyArg_ParseTupleAndKeywords(args, keywords, "O!:Lease", names,
					 module->lease, &sync) ||
	    !(lease = object_new(type)))
		return NULL;
	lease->sync = (struct lease *)Py_NewRef(sync);
	return (PyObject *)lease;
}

static void aio_lease_free(PyObject *object)
{
	struct aio_lease *lease = (struct aio_lease *)object;

	if (lease->weak_references)
		PyObject_ClearWeakRefs(object);
	Py_XDECREF((PyObject *)lease->sync);
	Py_XDECREF(lease->driver);
}

static void aio_lease_del(PyObject *object)
{
	object_del(object, aio_lease_free);
}

/* The driver of the running loop: a new reference, or NULL with an exception set. */
static PyObject *driver_here(struct aio_lease *lease)
{
	PyObject *loop =
		PyObject_CallNoArgs(lease->sync->session->module->get_running_loop);
	PyObject *driver, *old;

	if (!loop)
		return NULL;
	driver = lease->driver;
	if (driver && driver_is_of(driver, loop)) {
		Py_DECREF(loop);
		return Py_NewRef(driver);
	}
	driver = PyObject_CallMethod((PyObject *)lease, "_find_driver", NULL);
	Py_DECREF(loop);
	if (driver) {
		old = lease->driver;
		lease->driver = Py_NewRef(driver);
		Py_XDECREF(old);
	}
	return driver;
}

static PyObject *lease_driver(PyObject *object, PyObject *Py_UNUSED(args))
{
	return driver_here((struct aio_lease *)object);
}

static PyObject *transfer(PyObject *object, enum rmem_opcode opcode,
			  PyObject *const *args, Py_ssize_t n, PyObject *keywords)
{
	static const struct parameters parameters = { { "memory", "offset" }, 2, 1 };
	struct aio_lease *lease = (struct aio_lease *)object;
	PyObject *room[ARGUMENTS_MAX];
	PyObject *const *values = arguments_sort(&parameters, args, n, keywords, room);
	PyObject *driver, *operation;
	uint64_t offset;

	if (!values || arguments_u64(values[1], &offset) ||
	    !(driver = driver_here(lease)))
		return NULL;
	operation = driver_begin(driver, opcode, (PyObject *)lease->sync, values[0],
				 offset, NULL);
	Py_DECREF(driver);
	return operation;
}

static PyObject *lease_read_into(PyObject *object, PyObject *const *args, Py_ssize_t n,
				 PyObject *keywords)
{
	return transfer(object, RMEM_OP_READ, args, n, keywords);
}

static PyObject *lease_write(PyObject *object, PyObject *const *args, Py_ssize_t n,
			     PyObject *keywords)
{
	return transfer(object, RMEM_OP_WRITE, args, n, keywords);
}

#define FAST METH_FASTCALL | METH_KEYWORDS

static PyMethodDef aio_lease_methods[] = {
	{ "__reduce__", failure_reduce, METH_NOARGS, NULL },
	{ "read_into", METHOD(lease_read_into), FAST,
	  "read_into($self, memory, offset=0)\n--\n\n"
	  "Read from the offset into all of the memory, in place.  It is held until "
	  "the end." },
	{ "write", METHOD(lease_write), FAST,
	  "write($self, memory, offset=0)\n--\n\nWrite the bytes of the memory to the "
	  "offset." },
	{ "_driver", lease_driver, METH_NOARGS, NULL },
	{ 0 },
};

static PyMemberDef aio_lease_members[] = {
	{ "sync", T_OBJECT_EX, offsetof(struct aio_lease, sync), READONLY,
	  "The same lease for synchronous calls." },
	{ "__weaklistoffset__", T_PYSSIZET, offsetof(struct aio_lease, weak_references),
	  READONLY, NULL },
	{ 0 },
};

static PyType_Slot aio_lease_slots[] = {
	{ Py_tp_doc, "What rmem.aio.Lease is derived from." },
	{ Py_tp_new, aio_lease_new },
	{ Py_tp_dealloc, aio_lease_del },
	{ Py_tp_methods, aio_lease_methods },
	{ Py_tp_members, aio_lease_members },
	{ 0 },
};

PyType_Spec aio_lease_spec = {
	.name = "rmem._rmem.AioLease",
	.basicsize = sizeof(struct aio_lease),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = aio_lease_slots,
};
