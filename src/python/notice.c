// SPDX-License-Identifier: BSD-3-Clause
#include "python/notice.h"

#include "python/failure.h"
#include "python/lease.h"
#include "python/signals.h"

#define BATCH 64
#define SLICE_MS 100 /* after which signals are looked at */

static PyObject *notice_new(struct session *session, const struct rmem_notice *notice)
{
	PyObject *lease = lease_find(session, notice->lease);
	PyObject *new = PyObject_CallFunction(session->module->notice, "OIIII", lease,
					      notice->type, notice->reason,
					      notice->value, notice->lost);

	Py_DECREF(lease);
	return new;
}

static PyObject *notice_list(struct session *session, const struct rmem_notice *notices,
			     int n)
{
	PyObject *list = PyList_New(n);

	for (int i = 0; list && i < n; i++) {
		PyObject *notice = notice_new(session, &notices[i]);

		if (!notice)
			Py_CLEAR(list);
		else
			(void)PyList_SetItem(list, i, notice);
	}
	return list;
}

/* Returns the number taken, 0 after the time-out, or -1 with an exception set. */
static int take(struct session *session, struct rmem_notice *notices, long long left_ms)
{
	int n = 0, slice;

	do {
		slice = left_ms < 0 || left_ms > SLICE_MS ? SLICE_MS : (int)left_ms;
		if (session_enter(session))
			return -1;
		Py_BEGIN_ALLOW_THREADS
		n = rmem_notified(session->handle, notices, BATCH, slice);
		Py_END_ALLOW_THREADS
		if (n < 0)
			(void)failure_of_call(session->module, n);
		session_leave(session);
		if (n < 0 || (!n && signals_check()))
			return -1;
		if (left_ms > 0)
			left_ms -= slice;
	} while (!n && left_ms);
	return n;
}

PyObject *notice_take(PyObject *session, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "timeout_ms", NULL };
	struct rmem_notice notices[BATCH];
	long long timeout_ms = -1;
	int n;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|L:notified", names,
					 &timeout_ms))
		return NULL;
	n = take((struct session *)session, notices, timeout_ms);
	return n < 0 ? NULL : notice_list((struct session *)session, notices, n);
}

PyObject *notice_fileno(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct session *session = (struct session *)object;
	int fd;

	if (session_check(session))
		return NULL;
	fd = rmem_notified_fd(session->handle);
	return fd < 0 ? failure_of_call(session->module, fd) : PyLong_FromLong(fd);
}
