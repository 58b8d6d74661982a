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

void object_del(PyObject *object, void (*end)(PyObject *object))
{
	PyTypeObject *type = Py_TYPE(object);
	PyObject *raised, *value, *traceback;

	if (PyType_GetFlags(type) & Py_TPFLAGS_HAVE_GC)
		PyObject_GC_UnTrack(object);
	PyErr_Fetch(&raised, &value, &traceback);
	end(object);
	PyErr_Restore(raised, value, traceback);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
	Py_DECREF((PyObject *)type);
}

/* Of this thread, the latest one last.  Storage of this model costs one load; it takes 136 bytes of
 * those that the C library reserves for libraries that are loaded late. */
static _Thread_local struct {
	const void *objects[16]; /* deeper ones are counted alone */
	unsigned n;
} calls __attribute__((tls_model("initial-exec")));

#define REMEMBERED (sizeof(calls.objects) / sizeof(calls.objects[0]))

void object_enter(const void *object)
{
	if (calls.n < REMEMBERED)
		calls.objects[calls.n] = object;
	calls.n++;
}

void object_leave(void)
{
	calls.n--;
}

bool object_entered(const void *object)
{
	for (unsigned i = 0; i < calls.n && i < REMEMBERED; i++)
		if (calls.objects[i] == object)
			return true;
	return false;
}
