// SPDX-License-Identifier: BSD-3-Clause
#include "python/session_methods.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <structmember.h>

#include "python/arguments.h"
#include "python/buffer.h"
#include "python/failure.h"
#include "python/key.h"
#include "python/lease.h"
#include "python/notice.h"
#include "python/object.h"
#include "python/queue.h"
#include "python/session.h"
#include "python/signals.h"
#include "python/stat.h"

/* ---- open and close ---- */

PyObject *session_open(PyObject *module, PyObject *args)
{
	struct rmem_options options = rmem_options_init();
	struct key key = { 0 };
	const char *uri;
	rmem *handle;
	int err;

	if (!PyArg_ParseTuple(args, "zIIzz#", &uri, &options.flags, &options.timeout_ms,
			      &options.client, &key.bytes, &key.n))
		return NULL;
	if (key.bytes) {
		options.psk = key_give;
		options.psk_ctx = &key;
	}
	signals_hook();
	Py_BEGIN_ALLOW_THREADS
	err = rmem_open(uri, &options, &handle);
	Py_END_ALLOW_THREADS
	if (err)
		return failure_of_call(PyModule_GetState(module), err);
	return session_new(PyModule_GetState(module), handle);
}

/* Threads in calls need Python's lock to leave them. */
static int wait_for_calls(struct session *session)
{
	while (session->calls) {
		Py_BEGIN_ALLOW_THREADS(void)
		poll(NULL, 0, 1);
		Py_END_ALLOW_THREADS
		if (signals_check())
			return -1;
	}
	return 0;
}

static PyObject *session_close(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct session *session = (struct session *)object;
	rmem *handle = session->handle;

	if (!session_open_here(session))
		Py_RETURN_NONE;
	if (session->begun && session->begun_thread != PyThread_get_thread_ident())
		return failure_raise(
			session->module, -EBUSY,
			"calls of an event loop are under way: close it there");
	if (object_entered(session))
		return failure_raise(session->module, -EBUSY,
				     "this thread is in a call on the session");
	session->closing = true;
	if (wait_for_calls(session)) {
		session->closing = false;
		return NULL;
	}
	session_end(session);
	Py_BEGIN_ALLOW_THREADS
	rmem_close(handle);
	Py_END_ALLOW_THREADS
	Py_RETURN_NONE;
}

static void session_free(PyObject *object)
{
	struct session *session = (struct session *)object;
	rmem *handle = session->handle;

	if (session->weak_references)
		PyObject_ClearWeakRefs(object);
	if (handle) { /* in a child of fork() the call does nothing */
		Py_BEGIN_ALLOW_THREADS
		rmem_close(handle);
		Py_END_ALLOW_THREADS
	}
	registrations_forget(&session->registrations);
	device_ranges_end(&session->device_ranges);
	stagings_end(&session->stagings, session->generation == object_generation());
	Py_XDECREF(session->leases);
	if (session->batch_turn)
		PyThread_free_lock(session->batch_turn);
}

static void session_del(PyObject *object)
{
	object_del(object, session_free);
}

static PyObject *session_begin(PyObject *object, PyObject *Py_UNUSED(args))
{
	if (session_check((struct session *)object))
		return NULL;
	Py_INCREF(object);
	return object;
}

/* ---- leases ---- */

/* The answer of a call that grants a lease. */
static PyObject *granted(struct session *session, int err, rmem_lease *handle)
{
	PyObject *lease = err < 0 ? failure_of_call(session->module, err)
				  : lease_new(session, handle);

	session_leave(session);
	return lease;
}

static PyObject *session_alloc(PyObject *object, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "bytes",     "name", "attach", "ttl_ms", "align",
				 "placement", "node", "device", NULL };
	struct rmem_alloc_params params = rmem_alloc_params_init();
	struct session *session = (struct session *)object;
	int attach = 0, placement = RMEM_PLACE_NODE;
	rmem_lease *handle;
	int err;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&|$zpO&O&iiz:alloc", names,
					 arguments_to_u64, &params.bytes, &params.name,
					 &attach, arguments_to_u64, &params.ttl_ms,
					 arguments_to_u64, &params.align, &placement,
					 &params.node, &params.device) ||
	    session_enter(session))
		return NULL;
	params.flags = attach ? RMEM_ALLOC_ATTACH : 0;
	params.placement = (enum rmem_placement)placement;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_alloc(session->handle, &params, &handle);
	Py_END_ALLOW_THREADS
	return granted(session, err, handle);
}

static PyObject *session_attach(PyObject *object, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "name", "write", "tenant", NULL };
	struct session *session = (struct session *)object;
	const char *name, *tenant = NULL;
	rmem_lease *handle;
	unsigned rights;
	int write = 0;
	int err;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|$pz:attach", names, &name,
					 &write, &tenant) ||
	    session_enter(session))
		return NULL;
	rights = RMEM_READ | (write ? RMEM_WRITE : 0);
	Py_BEGIN_ALLOW_THREADS
	err = tenant ? rmem_attach_shared(session->handle, tenant, name, rights,
					  &handle)
		     : rmem_attach(session->handle, name, rights, &handle);
	Py_END_ALLOW_THREADS
	return granted(session, err, handle);
}

static PyObject *session_attach_many(PyObject *object, PyObject *args,
				     PyObject *keywords)
{
	static char *names[] = { "names", "write", NULL };
	PyObject *sessions, *list, *result;
	int write = 0;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$p:attach_many", names,
					 &list, &write) ||
	    session_check((struct session *)object))
		return NULL;
	sessions = PyImport_ImportModule("rmem.sessions");
	result = sessions ? PyObject_CallMethod(sessions, "attach_many", "OOi", object,
						list, write)
			  : NULL;
	Py_XDECREF(sessions);
	return result;
}

static PyObject *session_remove(PyObject *object, PyObject *args)
{
	struct session *session = (struct session *)object;
	const char *name;
	int err;

	if (!PyArg_ParseTuple(args, "s:remove", &name) || session_enter(session))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_remove(session->handle, name);
	Py_END_ALLOW_THREADS
	session_leave(session);
	if (err)
		return failure_of_call(session->module, err);
	Py_RETURN_NONE;
}

static PyObject *session_stat(PyObject *object, PyObject *args)
{
	struct session *session = (struct session *)object;
	struct rmem_stat stat = rmem_stat_init();
	const char *name;
	int err;

	if (!PyArg_ParseTuple(args, "s:stat", &name) || session_enter(session))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_stat(session->handle, name, &stat);
	Py_END_ALLOW_THREADS
	session_leave(session);
	return err ? failure_of_call(session->module, err)
		   : stat_new(session->module, &stat);
}

/* Leases of a list, collected without Python's lock. */
struct stats {
	struct rmem_stat *all;
	size_t n;
	size_t room;
};

static int stats_add(const struct rmem_stat *stat, void *arg)
{
	struct stats *stats = arg;

	if (stats->n == stats->room) {
		size_t room = stats->room ? 2 * stats->room : 64;
		struct rmem_stat *all = realloc(stats->all, room * sizeof(*all));

		if (!all)
			return -ENOMEM;
		stats->all = all;
		stats->room = room;
	}
	memcpy(&stats->all[stats->n++], stat,
	       stat->size < sizeof(*stat) ? stat->size : sizeof(*stat));
	return 0;
}

static PyObject *stats_list(const struct module *module, const struct stats *stats)
{
	PyObject *list = PyList_New((Py_ssize_t)stats->n);

	for (size_t i = 0; list && i < stats->n; i++) {
		PyObject *stat = stat_new(module, &stats->all[i]);

		if (!stat)
			Py_CLEAR(list);
		else
			(void)PyList_SetItem(list, (Py_ssize_t)i, stat);
	}
	return list;
}

static PyObject *session_list(PyObject *object, PyObject *args)
{
	struct session *session = (struct session *)object;
	struct stats stats = { 0 };
	const char *prefix = NULL;
	PyObject *list;
	int err;

	if (!PyArg_ParseTuple(args, "|z:list", &prefix) || session_enter(session))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_list(session->handle, prefix, stats_add, &stats);
	Py_END_ALLOW_THREADS
	session_leave(session);
	list = err ? failure_of_call(session->module, err)
		   : stats_list(session->module, &stats);
	free(stats.all);
	return list;
}

/* ---- the session itself ---- */

static PyObject *session_ping(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct session *session = (struct session *)object;
	uint64_t ns;
	int err;

	if (session_enter(session))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_ping(session->handle, &ns);
	Py_END_ALLOW_THREADS
	session_leave(session);
	return err ? failure_of_call(session->module, err)
		   : PyFloat_FromDouble((double)ns * 1e-9);
}

static PyObject *session_info(PyObject *object, void *Py_UNUSED(closure))
{
	struct session *session = (struct session *)object;
	struct rmem_info info = rmem_info_init();
	int err;

	if (session_check(session))
		return NULL;
	err = rmem_info(session->handle, &info);
	if (err)
		return failure_of_call(session->module, err);
	return Py_BuildValue("{sssssssssKsIsIsIsIsKsOsisK}", "fabric",
			     info.fabric == RMEM_FABRIC_RDMA ? "rdma" : "tcp",
			     "downgrade", info.downgrade, "server", info.server,
			     "device", info.device, "session_id",
			     (unsigned long long)info.session_id, "channels",
			     info.channels, "heartbeat_ms", info.heartbeat_ms,
			     "fence_ms", info.fence_ms, "grace_ms", info.grace_ms,
			     "resumes", (unsigned long long)info.resumes, "draining",
			     info.draining ? Py_True : Py_False, "auth", (int)info.auth,
			     "copied_bytes", (unsigned long long)info.copied_bytes);
}

static PyObject *session_counters(PyObject *object, void *Py_UNUSED(closure))
{
	struct session *session = (struct session *)object;

	return Py_BuildValue(
		"{sKsKsKsKsK}", "copied_bytes",
		(unsigned long long)session_copied(session), "registrations",
		(unsigned long long)session->n_registrations, "registration_hits",
		(unsigned long long)session->registration_hits, "registered_bytes",
		(unsigned long long)session->registered_bytes, "pinned_copies",
		(unsigned long long)session->pinned_copies);
}

static PyObject *session_registers(PyObject *object, void *Py_UNUSED(closure))
{
	return PyBool_FromLong(((struct session *)object)->registrations.on);
}

static int session_set_registers(PyObject *object, PyObject *value,
				 void *Py_UNUSED(closure))
{
	int on = value ? PyObject_IsTrue(value) : 0;

	if (on < 0)
		return -1;
	((struct session *)object)->registrations.on = on;
	return 0;
}

static PyObject *session_closed(PyObject *object, void *Py_UNUSED(closure))
{
	const struct session *session = (struct session *)object;

	return PyBool_FromLong(!session->handle || session->closing);
}

static PyMethodDef session_methods[] = {
	{ "__enter__", session_begin, METH_NOARGS, NULL },
	{ "__exit__", session_close, METH_VARARGS, NULL },
	{ "__reduce__", failure_reduce, METH_NOARGS, NULL },
	{ "close", session_close, METH_NOARGS,
	  "close($self, /)\n--\n\nEnd the session, its leases' handles, its queues and "
	  "its "
	  "registrations.\n\n"
	  "Waits for calls of other threads.  Operations of queues are ended; memory "
	  "that was\n"
	  "exported stays.  Leases without a name are freed.  Closing twice does "
	  "nothing.\n\n"
	  "Busy: this thread is in a call on it, and this is a signal's handler or a "
	  "destructor." },
	{ "alloc", METHOD(session_alloc), METH_VARARGS | METH_KEYWORDS,
	  "alloc($self, bytes, *, name=None, attach=False, ttl_ms=0, align=0, "
	  "placement=0, "
	  "node=-1, "
	  "device=None)\n--\n\n"
	  "Borrow memory of the server.  It reads as zero.\n\n"
	  "  name    None: the lease ends with the session\n"
	  "  attach  attach the lease of that name, if there is one\n"
	  "  ttl_ms  time to live after the last renewal, in milliseconds; 0: for "
	  "ever" },
	{ "attach", METHOD(session_attach), METH_VARARGS | METH_KEYWORDS,
	  "attach($self, name, *, write=False, tenant=None)\n--\n\n"
	  "Attach a lease by its name, for reading, or reading and writing.\n\n"
	  "  tenant  that shares the lease; None: the session's own" },
	{ "attach_many", METHOD(session_attach_many), METH_VARARGS | METH_KEYWORDS,
	  "attach_many($self, names, *, write=False)\n--\n\n"
	  "Attach leases in one round trip: for each name its Lease, or an Error." },
	{ "remove", session_remove, METH_VARARGS,
	  "remove($self, name, /)\n--\n\nEnd a named lease for all sessions, without "
	  "attaching it." },
	{ "stat", session_stat, METH_VARARGS,
	  "stat($self, name, /)\n--\n\nDescribe a named lease: a Stat." },
	{ "list", session_list, METH_VARARGS,
	  "list($self, prefix='', /)\n--\n\nDescribe the named leases whose names "
	  "begin with "
	  "prefix." },
	{ "ping", session_ping, METH_NOARGS,
	  "ping($self, /)\n--\n\nA round trip to the server.  Returns its duration in "
	  "seconds." },
	{ "notified", METHOD(notice_take), METH_VARARGS | METH_KEYWORDS,
	  "notified($self, timeout_ms=-1)\n--\n\n"
	  "Take Notices, of leases that watch() was called of or that the server wants "
	  "back; wait\n"
	  "for the first one.  An empty list after the time-out; negative: no limit." },
	{ "notified_fileno", notice_fileno, METH_NOARGS,
	  "notified_fileno($self, /)\n--\n\nA descriptor that is readable while there "
	  "are "
	  "notices." },
	{ "register", buffer_register, METH_O,
	  "register($self, memory, /)\n--\n\n"
	  "Register the memory of an object with the devices, for good: a Buffer, "
	  "which holds it." },
	{ "buffer", buffer_alloc, METH_O,
	  "buffer($self, bytes, /)\n--\n\nRegistered memory of that many bytes, all "
	  "zero: a "
	  "Buffer." },
	{ "queue", METHOD(queue_open), METH_VARARGS | METH_KEYWORDS,
	  "queue($self, depth=128)\n--\n\nA Queue with its own channels to the "
	  "server." },
	{ 0 },
};

static PyGetSetDef session_getset[] = {
	{ "info", session_info, NULL,
	  "Properties of the session: a dict, see rmem_info(3).", NULL },
	{ "counters", session_counters, NULL,
	  "What the session has counted: a dict.\n\n"
	  "  copied_bytes       on this host: over RDMA, of memory that is not "
	  "registered, and of\n"
	  "                     memory of GPUs\n"
	  "  registrations      made so far\n"
	  "  registration_hits  uses of memory that was registered already\n"
	  "  registered_bytes   now\n"
	  "  pinned_copies      between memory of GPUs and pinned buffers",
	  NULL },
	{ "registers", session_registers, session_set_registers,
	  "True, as over RDMA: memory of numpy arrays, torch tensors and ctypes arrays "
	  "is\n"
	  "registered when it is used first, and as long as they live.",
	  NULL },
	{ "closed", session_closed, NULL, "True once close() was called.", NULL },
	{ 0 },
};

static PyMemberDef session_members[] = {
	{ "__weaklistoffset__", T_PYSSIZET, offsetof(struct session, weak_references),
	  READONLY, NULL },
	{ 0 },
};

static PyType_Slot session_slots[] = {
	{ Py_tp_doc,
	  "A session with one server, of rmem.open(); a context manager.\n\n"
	  "Any thread may use it.  It cannot be used after fork(), nor pickled." },
	{ Py_tp_dealloc, session_del },
	{ Py_tp_methods, session_methods },
	{ Py_tp_getset, session_getset },
	{ Py_tp_members, session_members },
	{ 0 },
};

PyType_Spec session_spec = {
	.name = "rmem._rmem.Session",
	.basicsize = sizeof(struct session),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION |
		 Py_TPFLAGS_IMMUTABLETYPE,
	.slots = session_slots,
};
