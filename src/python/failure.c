// SPDX-License-Identifier: BSD-3-Clause
#include "python/failure.h"

#include <errno.h>

#include "python/signals.h"

PyObject *failure_new(const struct module *module, int status, const char *text,
		      enum rmem_reason reason)
{
	PyObject *line =
		PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
	PyObject *failure;

	if (!line)
		return NULL;
	failure = PyObject_CallFunction(module->failure, "iOi", -status, line,
					(int)reason);
	Py_DECREF(line);
	return failure;
}

static void *raise_new(const struct module *module, int status, const char *text,
		       enum rmem_reason reason)
{
	PyObject *failure;

	if (status == -EINTR && signals_raise())
		return NULL;
	failure = failure_new(module, status, text, reason);
	if (failure) {
		PyErr_SetObject((PyObject *)Py_TYPE(failure), failure);
		Py_DECREF(failure);
	}
	return NULL;
}

void *failure_raise(const struct module *module, int status, const char *text)
{
	return raise_new(module, status, text, RMEM_REASON_NONE);
}

void *failure_of_call(const struct module *module, int status)
{
	return raise_new(module, status, rmem_error(), RMEM_REASON_NONE);
}

void *failure_of_lease(const struct module *module, int status, const rmem_lease *lease)
{
	return raise_new(module, status, rmem_error(), rmem_lease_reason(lease));
}

void *failure_forked(const struct module *module)
{
	return raise_new(module, -ESTALE,
			 "opened by the parent process: open a session in the child",
			 RMEM_REASON_LOST);
}

PyObject *failure_reduce(PyObject *self, PyObject *Py_UNUSED(args))
{
	return PyErr_Format(
		PyExc_TypeError,
		"cannot pickle '%S': it belongs to this process; send the server's URI "
		"and the names of leases, and open a session there",
		(PyObject *)Py_TYPE(self));
}
