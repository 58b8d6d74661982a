// SPDX-License-Identifier: BSD-3-Clause
#include "python/lease.h"

#include <errno.h>

#include "python/failure.h"
#include "python/object.h"

PyObject *lease_new(struct session *session, rmem_lease *handle)
{
	struct lease *lease = object_new(session->module->lease);

	if (!lease)
		return NULL;
	Py_INCREF((PyObject *)session);
	lease->session = session;
	lease->handle = handle;
	return (PyObject *)lease;
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
	lease->session->calls++;
	return 0;
}

void lease_leave(struct lease *lease)
{
	lease_unuse(lease);
	session_leave(lease->session);
}
