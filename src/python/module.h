/* SPDX-License-Identifier: BSD-3-Clause */
/* What all files of the extension rmem._rmem share: Python's headers, and the module's state.
 *
 * Locks.  Python's lock guards every object here.  It is released around calls of librmem that may
 * wait or register memory, and kept in rmem_submit(), rmem_poll() and rmem_queue_arm(): beside a
 * busy thread to get it back takes milliseconds.  No thread of librmem enters Python. */
#ifndef PYTHON_MODULE_H
#define PYTHON_MODULE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include <rmem/rmem.h>

struct module {
	PyTypeObject *session;
	PyTypeObject *lease;
	PyTypeObject *buffer;
	PyTypeObject *queue;
	PyTypeObject *driver;
	PyTypeObject *operation;
	PyTypeObject *aio_lease;
	PyTypeObject *calls;
	PyTypeObject *cache;
	PyObject *failure;     /* rmem.errors.failure() */
	PyObject *stat;        /* rmem.Stat */
	PyObject *completion;  /* rmem.Completion */
	PyObject *cache_entry; /* rmem.CacheEntry */
	PyObject *notice;      /* rmem.Notice */
	/* of asyncio and contextvars; NULL: not needed yet */
	PyObject *get_running_loop;
	PyObject *cancelled_error;
	PyObject *invalid_state;
	PyObject *copy_context;
};

/* The module of a type of the extension, or of one that is derived from it.  Returns NULL with an
 * exception set. */
struct module *module_of_type(PyTypeObject *type);
/* Import what Operation needs.  Returns 0, or -1 with an exception set. */
int module_import_asyncio(struct module *module);

/* A method of any signature, as tables of methods have it. */
#define METHOD(function) ((PyCFunction)(void (*)(void))(function))

#endif
