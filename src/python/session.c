// SPDX-License-Identifier: BSD-3-Clause
#include "python/session.h"

#include <errno.h>

#include "python/failure.h"
#include "python/object.h"

PyObject *session_new(struct module *module, rmem *handle)
{
	struct session *session = object_new(module->session);
	struct rmem_info info = rmem_info_init();

	if (!session || !(session->batch_turn = PyThread_allocate_lock()) ||
	    !(session->leases = PyDict_New())) {
		Py_XDECREF((PyObject *)session);
		Py_BEGIN_ALLOW_THREADS
		rmem_close(handle);
		Py_END_ALLOW_THREADS
		return session ? PyErr_NoMemory() : NULL;
	}
	session->module = module;
	session->handle = handle;
	session->generation = object_generation();
	session->registrations.on =
		!rmem_info(handle, &info) && info.fabric == RMEM_FABRIC_RDMA;
	return (PyObject *)session;
}

bool session_open_here(const struct session *session)
{
	return session->generation == object_generation() && session->handle &&
	       !session->closing;
}

int session_check(const struct session *session)
{
	if (session->generation != object_generation())
		(void)failure_forked(session->module);
	else if (!session->handle || session->closing)
		(void)failure_raise(session->module, -ESTALE, "the session is closed");
	else
		return 0;
	return -1;
}

int session_enter(struct session *session)
{
	if (session_check(session))
		return -1;
	session_hold(session);
	return 0;
}

void session_hold(struct session *session)
{
	object_enter(session);
	session->calls++;
}

void session_leave(struct session *session)
{
	session->calls--;
	object_leave();
}

void session_add(struct session *session, struct ending *ending)
{
	ending->next = session->endings;
	ending->link = &session->endings;
	if (ending->next)
		ending->next->link = &ending->next;
	session->endings = ending;
}

void session_drop(struct ending *ending)
{
	*ending->link = ending->next;
	if (ending->next)
		ending->next->link = ending->link;
}

uint64_t session_copied(struct session *session)
{
	struct rmem_info info = rmem_info_init();

	if (session->handle && session->generation == object_generation() &&
	    !rmem_info(session->handle, &info))
		session->copied_bytes = info.copied_bytes;
	return session->copied_bytes + session->pinned_bytes;
}

void session_end(struct session *session)
{
	(void)session_copied(session); /* for the last time */
	session->closing = true;
	while (session->endings)
		session->endings->end(session->endings);
	registrations_forget(&session->registrations);
	session->registered_bytes = 0;
	session->handle = NULL;
	session->batch_queue = NULL;
}
