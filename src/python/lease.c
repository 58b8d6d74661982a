// SPDX-License-Identifier: BSD-3-Clause
#include "python/lease.h"

#include <errno.h>

#include "python/failure.h"
#include "python/object.h"

static int remember(struct lease *lease)
{
	PyObject *key = PyLong_FromVoidPtr(lease->handle);
	PyObject *reference = PyWeakref_NewRef((PyObject *)lease, NULL);
	int err = key && reference
			  ? PyDict_SetItem(lease->session->leases, key, reference)
			  : -1;

	Py_XDECREF(key);
	Py_XDECREF(reference);
	return err;
}

PyObject *lease_new(struct session *session, rmem_lease *handle)
{
	struct lease *lease = object_new(session->module->lease);

	if (!lease)
		return NULL;
	Py_INCREF((PyObject *)session);
	lease->session = session;
	lease->handle = handle;
	if (remember(lease)) {
		Py_DECREF((PyObject *)lease);
		return NULL;
	}
	return (PyObject *)lease;
}

PyObject *lease_find(const struct session *session, const rmem_lease *handle)
{
	PyObject *key = PyLong_FromVoidPtr((void *)(uintptr_t)handle);
	PyObject *reference =
		key ? PyDict_GetItemWithError(session->leases, key) : NULL;
	PyObject *lease = reference ? PyWeakref_GetObject(reference) : Py_None;

	Py_XDECREF(key);
	PyErr_Clear();
	return Py_NewRef(lease);
}

void lease_forget(const struct session *session, const rmem_lease *handle)
{
	PyObject *lease = lease_find(session, handle);
	PyObject *key = PyLong_FromVoidPtr((void *)(uintptr_t)handle);

	/* another object may have the handle too */
	if (key && (lease == Py_None || !((struct lease *)lease)->handle))
		(void)PyDict_DelItem(session->leases, key);
	PyErr_Clear();
	Py_XDECREF(key);
	Py_DECREF(lease);
}

int lease_use(struct lease *lease)
{
	if (session_check(lease->session))
		return -1;
	if (!lease->handle) {
		(void)failure_raise(lease->session->module, -ESTALE,
				    "the lease is detached");
		return -1;
	}
	lease->uses++;
	return 0;
}

void lease_unuse(struct lease *lease)
{
	lease->uses--;
}

int lease_enter(struct lease *lease)
{
	if (lease_use(lease))
		return -1;
	session_hold(lease->session);
	return 0;
}

void lease_leave(struct lease *lease)
{
	lease_unuse(lease);
	session_leave(lease->session);
}
