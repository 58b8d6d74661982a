// SPDX-License-Identifier: BSD-3-Clause
#include "python/module.h"

#include "python/aio_lease.h"
#include "python/buffer.h"
#include "python/cache.h"
#include "python/calls.h"
#include "python/driver.h"
#include "python/lease_methods.h"
#include "python/object.h"
#include "python/operation.h"
#include "python/queue.h"
#include "python/session_methods.h"
#include "python/signals.h"

static PyTypeObject *module_type(PyObject *module, PyType_Spec *spec)
{
	PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);

	if (type && PyModule_AddType(module, (PyTypeObject *)type)) {
		Py_DECREF(type);
		return NULL;
	}
	return (PyTypeObject *)type;
}

/* The attributes of Python's part that the extension calls. */
static int module_imports(struct module *module)
{
	PyObject *errors = PyImport_ImportModule("rmem.errors");
	PyObject *records = PyImport_ImportModule("rmem.records");

	if (errors && records) {
		module->failure = PyObject_GetAttrString(errors, "failure");
		module->stat = PyObject_GetAttrString(records, "Stat");
		module->completion = PyObject_GetAttrString(records, "Completion");
		module->cache_entry = PyObject_GetAttrString(records, "CacheEntry");
		module->notice = PyObject_GetAttrString(records, "Notice");
	}
	Py_XDECREF(errors);
	Py_XDECREF(records);
	return module->failure && module->stat && module->completion &&
			       module->cache_entry && module->notice
		       ? 0
		       : -1;
}

struct module *module_of_type(PyTypeObject *type)
{
	PyObject *module = NULL;

	while (type && !(module = PyType_GetModule(type))) {
		PyErr_Clear();
		type = PyType_GetSlot(type, Py_tp_base);
	}
	return module ? PyModule_GetState(module) : NULL;
}

int module_import_asyncio(struct module *module)
{
	PyObject *asyncio, *contextvars;

	if (module->copy_context)
		return 0;
	asyncio = PyImport_ImportModule("asyncio");
	contextvars = asyncio ? PyImport_ImportModule("contextvars") : NULL;
	if (contextvars) {
		module->get_running_loop =
			PyObject_GetAttrString(asyncio, "get_running_loop");
		module->cancelled_error =
			PyObject_GetAttrString(asyncio, "CancelledError");
		module->invalid_state =
			PyObject_GetAttrString(asyncio, "InvalidStateError");
		module->copy_context =
			PyObject_GetAttrString(contextvars, "copy_context");
	}
	Py_XDECREF(asyncio);
	Py_XDECREF(contextvars);
	return PyErr_Occurred() ? -1 : 0;
}

static int module_exec(PyObject *self)
{
	struct module *module = PyModule_GetState(self);

	signals_hook();
	if (object_watch_forks() || module_imports(module) ||
	    PyModule_AddStringConstant(self, "version", rmem_version()))
		return -1;
	if (!(module->session = module_type(self, &session_spec)) ||
	    !(module->lease = module_type(self, &lease_spec)) ||
	    !(module->buffer = module_type(self, &buffer_spec)) ||
	    !(module->queue = module_type(self, &queue_spec)) ||
	    !(module->driver = module_type(self, &driver_spec)) ||
	    !(module->operation = module_type(self, &operation_spec)) ||
	    !(module->aio_lease = module_type(self, &aio_lease_spec)) ||
	    !(module->calls = module_type(self, &calls_spec)) ||
	    !(module->cache = module_type(self, &cache_spec)))
		return -1;
	return 0;
}

static int module_traverse(PyObject *self, visitproc visit, void *arg)
{
	struct module *module = PyModule_GetState(self);

	Py_VISIT(module->session);
	Py_VISIT(module->lease);
	Py_VISIT(module->buffer);
	Py_VISIT(module->queue);
	Py_VISIT(module->driver);
	Py_VISIT(module->operation);
	Py_VISIT(module->aio_lease);
	Py_VISIT(module->calls);
	Py_VISIT(module->cache);
	Py_VISIT(module->failure);
	Py_VISIT(module->stat);
	Py_VISIT(module->completion);
	Py_VISIT(module->cache_entry);
	Py_VISIT(module->notice);
	Py_VISIT(module->get_running_loop);
	Py_VISIT(module->cancelled_error);
	Py_VISIT(module->invalid_state);
	Py_VISIT(module->copy_context);
	return 0;
}

static int module_clear(PyObject *self)
{
	struct module *module = PyModule_GetState(self);

	Py_CLEAR(module->session);
	Py_CLEAR(module->lease);
	Py_CLEAR(module->buffer);
	Py_CLEAR(module->queue);
	Py_CLEAR(module->driver);
	Py_CLEAR(module->operation);
	Py_CLEAR(module->aio_lease);
	Py_CLEAR(module->calls);
	Py_CLEAR(module->cache);
	Py_CLEAR(module->failure);
	Py_CLEAR(module->stat);
	Py_CLEAR(module->completion);
	Py_CLEAR(module->cache_entry);
	Py_CLEAR(module->notice);
	Py_CLEAR(module->get_running_loop);
	Py_CLEAR(module->cancelled_error);
	Py_CLEAR(module->invalid_state);
	Py_CLEAR(module->copy_context);
	return 0;
}

static void module_free(void *self)
{
	(void)module_clear(self);
}

static PyMethodDef module_methods[] = {
	{ "open", METHOD(session_open), METH_VARARGS,
	  "open(uri, flags, timeout_ms, client, tenant_key): what rmem.open() calls." },
	{ "cache", METHOD(cache_open), METH_VARARGS,
	  "cache(...): what rmem.Cache() calls." },
	{ "calls", calls_new, METH_NOARGS,
	  "calls(): what rmem.aio uses for one event loop." },
	{ 0 },
};

static PyModuleDef_Slot module_slots[] = {
	{ Py_mod_exec, module_exec },
	{ 0 },
};

static struct PyModuleDef module_def = {
	PyModuleDef_HEAD_INIT,
	.m_name = "rmem._rmem",
	.m_doc = "The part of rmem that calls librmem.  Import rmem.",
	.m_size = sizeof(struct module),
	.m_methods = module_methods,
	.m_slots = module_slots,
	.m_traverse = module_traverse,
	.m_clear = module_clear,
	.m_free = module_free,
};

PyMODINIT_FUNC PyInit__rmem(void);

PyMODINIT_FUNC PyInit__rmem(void)
{
	return PyModuleDef_Init(&module_def);
}
