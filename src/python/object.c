// SPDX-License-Identifier: BSD-3-Clause
#include "python/object.h"

#include <pthread.h>

static unsigned generation;

static void forked(void)
{
	generation++;
}

int object_watch_forks(void)
{
	static bool watched; /* once for all interpreters */

	if (!watched && pthread_atfork(NULL, NULL, forked)) {
		(void)PyErr_NoMemory();
		return -1;
	}
	watched = true;
	return 0;
}

unsigned object_generation(void)
{
	return generation;
}

void *object_new(PyTypeObject *type)
{
	return PyType_GenericAlloc(type, 0);
}

void object_del(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
	Py_DECREF((PyObject *)type);
}
