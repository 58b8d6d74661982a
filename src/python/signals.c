// SPDX-License-Identifier: BSD-3-Clause
#include "python/signals.h"

#include <unistd.h>

#include "rmem/rmem.h"

/* The main interpreter's lock guards it. */
static struct {
	PyObject *type, *value, *traceback;
} raised;

bool signals_raise(void)
{
	if (!raised.type)
		return false;
	PyErr_Restore(raised.type, raised.value, raised.traceback);
	raised.type = NULL;
	return true;
}

int signals_check(void)
{
	return signals_raise() ? -1 : PyErr_CheckSignals();
}

static int raise_later(void *Py_UNUSED(ctx))
{
	return signals_raise() ? -1 : 0;
}

/* Where the call has a result nevertheless, the exception follows it: it's never lost. */
static int interrupted(void *Py_UNUSED(ctx))
{
	PyGILState_STATE locked = PyGILState_Ensure();
	int ends = raised.type != NULL;

	if (!ends && PyErr_CheckSignals()) {
		PyErr_Fetch(&raised.type, &raised.value, &raised.traceback);
		(void)Py_AddPendingCall(raise_later, NULL);
		ends = 1;
	}
	PyGILState_Release(locked);
	return ends;
}

void signals_hook(void)
{
	bool here = gettid() == getpid() &&
		    !PyInterpreterState_GetID(PyInterpreterState_Get());

	rmem_thread_interrupt(here ? interrupted : NULL, NULL);
}
