// SPDX-License-Identifier: BSD-3-Clause
#include "python/calls.h"

#include <errno.h>
#include <pythread.h>

#include "python/arguments.h"
#include "python/driver.h"
#include "python/failure.h"
#include "python/object.h"
#include "python/key.h"
#include "python/lease.h"
#include "python/stat.h"

#define BATCH 64 /* requests begun, and answers taken, at a time */
#define NONE UINT32_MAX

/* A request, from begin() to its answer. */
struct entry {
	PyObject *future; /* NULL: free, or cancelled before it was begun */
	PyObject *target; /* Session, Lease or None */
	PyObject *texts;  /* what holds the texts below */
	PyObject *list;   /* LIST: the pages so far */
	const char *name;
	const char *tenant;
	uint64_t value;
	union {
		struct rmem_alloc_params alloc;
		struct rmem_options options;
		struct rmem_queue_params queue;
	};
	PyObject *driver; /* QUEUE: held by texts */
	struct key key;
	rmem *session;     /* the handle; CLOSE takes it from its object */
	rmem_lease *lease; /* the handle; DETACH and DESTROY take it from its object */
	/* of its use: an answer to another use is not taken for this one */
	uint32_t turn;
	uint32_t next; /* of a list */
	uint16_t call;
	bool waiting; /* for its turn to begin */
	bool uses;    /* its lease, which is not detached meanwhile */
};

struct calls {
	PyObject head;
	struct module *module;
	rmem_calls *handle; /* NULL: closed */
	struct entry *entries;
	uint32_t used; /* entries that have been used; the others are not touched yet */
	uint32_t free; /* first one of those; NONE: none */
	uint32_t first; /* that waits to begin; NONE: none */
	uint32_t last;
	unsigned generation;
	unsigned long thread;
};

PyObject *calls_new(PyObject *module, PyObject *Py_UNUSED(args))
{
	struct rmem_calls_params params = rmem_calls_params_init();
	struct module *state = PyModule_GetState(module);
	struct calls *calls = object_new(state->calls);
	int err;

	if (!calls)
		return NULL;
	calls->module = state;
	calls->generation = object_generation();
	calls->thread = PyThread_get_thread_ident();
	calls->free = calls->first = NONE;
	calls->entries = PyMem_Calloc(RMEM_CALLS_MAX, sizeof(*calls->entries));
	params.depth = RMEM_CALLS_MAX;
	err = calls->entries ? rmem_calls_create(&params, &calls->handle) : 0;
	if (calls->handle)
		return (PyObject *)calls;
	Py_DECREF((PyObject *)calls);
	return err ? failure_of_call(state, err) : PyErr_NoMemory();
}

static int calls_check(const struct calls *calls)
{
	if (calls->generation != object_generation()) {
		(void)failure_forked(calls->module);
	} else if (calls->thread != PyThread_get_thread_ident()) {
		PyErr_SetString(PyExc_RuntimeError,
				"another thread than that of the event loop: "
				"use asyncio.run_coroutine_threadsafe()");
	} else if (!calls->handle) {
		PyErr_SetString(PyExc_RuntimeError, "Event loop is closed");
	} else {
		return 0;
	}
	return -1;
}

/* ---- entries ---- */

static struct entry *entry_new(struct calls *calls)
{
	struct entry *entry;

	if (calls->free == NONE && calls->used == RMEM_CALLS_MAX)
		return failure_raise(calls->module, -EOVERFLOW,
				     "too many calls are outstanding");
	if (calls->free == NONE)
		return &calls->entries[calls->used++];
	entry = &calls->entries[calls->free];
	calls->free = entry->next;
	return entry;
}

static void entry_free(struct calls *calls, struct entry *entry)
{
	entry->next = calls->free;
	calls->free = (uint32_t)(entry - calls->entries);
}

static struct entry *entry_of(const struct calls *calls, uint64_t cookie)
{
	uint32_t i = (uint32_t)cookie;

	if (!calls->entries || i >= calls->used || !calls->entries[i].future ||
	    calls->entries[i].turn != cookie >> 32)
		return NULL;
	return &calls->entries[i];
}

static bool ends_lease(unsigned call)
{
	return call == RMEM_CALL_DETACH || call == RMEM_CALL_DESTROY;
}

static bool is_lease(const struct calls *calls, const struct entry *entry)
{
	return Py_TYPE(entry->target) == calls->module->lease;
}

/* The session of a request, other than to open one. */
static struct session *session_of(const struct calls *calls, const struct entry *entry)
{
	if (entry->call == RMEM_CALL_OPEN)
		return NULL;
	return is_lease(calls, entry) ? ((struct lease *)entry->target)->session
				      : (struct session *)entry->target;
}

/* The lease is not in use by this call any more. */
static void entry_unuse(struct entry *entry)
{
	if (entry->uses)
		lease_unuse((struct lease *)entry->target);
	entry->uses = false;
}

/* Release what the entry holds.  Returns its future: a new reference. */
static PyObject *entry_empty(struct calls *calls, struct entry *entry)
{
	struct session *session = session_of(calls, entry);
	PyObject *future = entry->future;

	if (session)
		session->begun--;
	entry_unuse(entry);
	entry->future = NULL;
	entry->turn++;
	Py_CLEAR(entry->target);
	Py_CLEAR(entry->texts);
	Py_CLEAR(entry->list);
	return future;
}

/* ---- requests ---- */

/* The text of a str, NULL of None.  Returns 0, or -1 with an exception set. */
static int text_of(PyObject *object, const char **ret_text)
{
	Py_ssize_t bytes;

	*ret_text = NULL;
	if (object == Py_None)
		return 0;
	*ret_text = PyUnicode_AsUTF8AndSize(object, &bytes);
	if (*ret_text && strlen(*ret_text) != (size_t)bytes) {
		PyErr_SetString(PyExc_ValueError, "embedded null character");
		return -1;
	}
	return *ret_text ? 0 : -1;
}

static int alloc_params(struct entry *entry, PyObject *args)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	int attach, placement;

	if (!PyArg_ParseTuple(args, "O&pO&O&iiz", arguments_to_u64, &params.bytes,
			      &attach, arguments_to_u64, &params.ttl_ms,
			      arguments_to_u64, &params.align, &placement, &params.node,
			      &params.device))
		return -1;
	params.name = entry->name;
	params.flags = attach ? RMEM_ALLOC_ATTACH : 0;
	params.placement = (enum rmem_placement)placement;
	entry->alloc = params;
	return 0;
}

static int open_params(struct entry *entry, PyObject *args)
{
	struct rmem_options options = rmem_options_init();

	if (!PyArg_ParseTuple(args, "IIzz#", &options.flags, &options.timeout_ms,
			      &options.client, &entry->key.bytes, &entry->key.n))
		return -1;
	if (entry->key.bytes) {
		options.psk = key_give;
		options.psk_ctx = &entry->key;
	}
	entry->options = options;
	return 0;
}

/* The queue of a driver. */
static int queue_params(const struct calls *calls, struct entry *entry,
			PyObject *driver)
{
	if (!PyObject_TypeCheck(driver, calls->module->driver)) {
		PyErr_SetString(PyExc_TypeError, "no driver");
		return -1;
	}
	entry->driver = driver;
	entry->queue = rmem_queue_params_init();
	entry->queue.depth = DRIVER_DEPTH;
	return 0;
}

/* The handle of a session that is to be closed: nothing else may use it from now on. */
static int take_session(struct entry *entry, struct session *session)
{
	entry->session = session->handle;
	if (entry->call != RMEM_CALL_CLOSE)
		return 0;
	if (session->calls) {
		(void)failure_raise(session->module, -EBUSY,
				    "calls of other threads are under way");
		return -1;
	}
	session_end(session);
	return 0;
}

static int take_lease(struct entry *entry, struct lease *lease)
{
	if (lease_use(lease))
		return -1;
	entry->session = lease->session->handle;
	entry->lease = lease->handle;
	entry->uses = !ends_lease(entry->call);
	if (entry->uses)
		return 0;
	lease_unuse(lease);
	if (lease->uses) {
		(void)failure_raise(lease->session->module, -EBUSY,
				    "calls or operations on the lease are under way");
		return -1;
	}
	lease->handle = NULL;
	return 0;
}

/* The session or lease of a call. */
static int take_target(const struct calls *calls, struct entry *entry, PyObject *target)
{
	entry->session = NULL;
	entry->lease = NULL;
	if (Py_TYPE(target) == calls->module->lease)
		return take_lease(entry, (struct lease *)target);
	if (Py_TYPE(target) == calls->module->session)
		return session_check((struct session *)target)
			       ? -1
			       : take_session(entry, (struct session *)target);
	if (target == Py_None && entry->call == RMEM_CALL_OPEN)
		return 0;
	PyErr_SetString(PyExc_TypeError, "neither a session nor a lease");
	return -1;
}

static int fill_entry(const struct calls *calls, struct entry *entry, PyObject *args)
{
	PyObject *future, *target, *name, *tenant, *params;
	struct session *session;
	unsigned short call;

	if (!PyArg_ParseTuple(args, "OHOOOO&O", &future, &call, &target, &name, &tenant,
			      arguments_to_u64, &entry->value, &params))
		return -1;
	entry->call = call;
	if (text_of(name, &entry->name) || text_of(tenant, &entry->tenant) ||
	    (call == RMEM_CALL_ALLOC && alloc_params(entry, params)) ||
	    (call == RMEM_CALL_OPEN && open_params(entry, params)) ||
	    (call == RMEM_CALL_QUEUE && queue_params(calls, entry, params)) ||
	    take_target(calls, entry, target))
		return -1;
	Py_INCREF(future);
	Py_INCREF(target);
	Py_INCREF(args);
	entry->future = future;
	entry->target = target;
	entry->texts = args;
	session = session_of(calls, entry);
	if (session) {
		session->begun++;
		session->begun_thread = calls->thread;
	}
	return 0;
}

/* begin(future, call, target, name, tenant, value, params) */
static PyObject *calls_begin(PyObject *object, PyObject *args)
{
	struct calls *calls = (struct calls *)object;
	struct entry *entry;
	uint32_t i;

	if (calls_check(calls) || !(entry = entry_new(calls)))
		return NULL;
	if (fill_entry(calls, entry, args)) {
		entry_free(calls, entry);
		return NULL;
	}
	i = (uint32_t)(entry - calls->entries);
	entry->next = NONE;
	entry->waiting = true;
	if (calls->first == NONE)
		calls->first = i;
	else
		calls->entries[calls->last].next = i;
	calls->last = i;
	return PyLong_FromUnsignedLongLong(i | (uint64_t)entry->turn << 32);
}

static struct rmem_request request_of(const struct calls *calls,
				      const struct entry *entry)
{
	struct rmem_request request = rmem_request_init((enum rmem_call)entry->call);

	request.session = entry->session;
	request.lease = entry->lease;
	request.name = entry->name;
	request.tenant = entry->tenant;
	request.value = entry->value;
	request.cookie = (uint64_t)(entry - calls->entries) | (uint64_t)entry->turn
								      << 32;
	if (entry->call == RMEM_CALL_ALLOC)
		request.params = &entry->alloc;
	else if (entry->call == RMEM_CALL_OPEN)
		request.params = &entry->options;
	else if (entry->call == RMEM_CALL_QUEUE)
		request.params = &entry->queue;
	return request;
}

static struct entry *pop(struct calls *calls)
{
	struct entry *entry = &calls->entries[calls->first];

	calls->first = entry->next;
	entry->waiting = false;
	return entry;
}

/* ---- ends ---- */

/* What a call that has failed has taken from its object is there still. */
static void give_back(struct calls *calls, const struct entry *entry)
{
	if (ends_lease(entry->call) && is_lease(calls, entry))
		((struct lease *)entry->target)->handle = entry->lease;
}

/* future.complete(error, result), which takes both over. */
static void end(struct calls *calls, struct entry *entry, PyObject *error,
		PyObject *result)
{
	PyObject *future = entry_empty(calls, entry);
	PyObject *ended;

	entry_free(calls, entry);
	ended = PyObject_CallMethod(future, "complete", "OO", error ? error : Py_None,
				    result ? result : Py_None);
	if (!ended)
		PyErr_WriteUnraisable(future);
	Py_XDECREF(ended);
	Py_XDECREF(error);
	Py_XDECREF(result);
	Py_DECREF(future);
}

/* The exception that is set, which is set no more. */
static PyObject *take_raised(void)
{
	PyObject *type, *error, *traceback;

	PyErr_Fetch(&type, &error, &traceback);
	PyErr_NormalizeException(&type, &error, &traceback);
	Py_XDECREF(type);
	Py_XDECREF(traceback);
	return error;
}

static void fail(struct calls *calls, struct entry *entry, int status, const char *text,
		 enum rmem_reason reason)
{
	PyObject *error = failure_new(calls->module, status, text, reason);

	if (!error)
		error = take_raised();
	give_back(calls, entry);
	end(calls, entry, error, NULL);
}

/* ---- to the library ---- */

/* The session may have been closed since begin(). */
static bool usable(const struct calls *calls, const struct entry *entry)
{
	if (entry->call == RMEM_CALL_OPEN || entry->call == RMEM_CALL_CLOSE)
		return true;
	return session_open_here(session_of(calls, entry));
}

/* The requests that are next, without those that were cancelled, or cannot be made any more. */
static unsigned next_requests(struct calls *calls, struct rmem_request *requests)
{
	unsigned n = 0;

	for (uint32_t i = calls->first; i != NONE; i = calls->first) {
		struct entry *entry = &calls->entries[i];

		if (entry->future && usable(calls, entry))
			break;
		(void)pop(calls);
		if (entry->future)
			fail(calls, entry, -ESTALE, "the session is closed",
			     RMEM_REASON_LOST);
		else
			entry_free(calls, entry);
	}
	for (uint32_t i = calls->first; i != NONE && n < BATCH;
	     i = calls->entries[i].next) {
		if (!calls->entries[i].future || !usable(calls, &calls->entries[i]))
			break;
		requests[n++] = request_of(calls, &calls->entries[i]);
	}
	return n;
}

/* A session that could not begin to be closed is there still. */
static void refuse(struct calls *calls, int status)
{
	struct entry *entry = pop(calls);

	if (entry->call == RMEM_CALL_CLOSE) {
		((struct session *)entry->target)->handle = entry->session;
		((struct session *)entry->target)->closing = false;
	}
	fail(calls, entry, status, rmem_error(), RMEM_REASON_NONE);
}

/* ---- from the library ---- */

static PyObject *stats_of(const struct calls *calls, struct entry *entry,
			  const struct rmem_answer *answer)
{
	PyObject *list = entry->list ? entry->list : PyList_New(0);

	entry->list = NULL;
	for (uint32_t i = 0; list && i < answer->n_stats; i++) {
		PyObject *stat = stat_new(calls->module, &answer->stats[i]);

		if (!stat || PyList_Append(list, stat))
			Py_CLEAR(list);
		Py_XDECREF(stat);
	}
	return list;
}

/* Returns NULL with an exception set if there is no memory; without: the result is None. */
static PyObject *result_of(struct calls *calls, struct entry *entry,
			   const struct rmem_answer *answer)
{
	switch (answer->call) {
	case RMEM_CALL_OPEN:
		return session_new(calls->module, answer->object);
	case RMEM_CALL_ALLOC:
	case RMEM_CALL_ATTACH:
	case RMEM_CALL_ATTACH_SHARED:
		return lease_new((struct session *)entry->target, answer->object);
	case RMEM_CALL_QUEUE:
		driver_attach(entry->driver, answer->object);
		return NULL;
	case RMEM_CALL_PING:
		return PyFloat_FromDouble((double)answer->value * 1e-9);
	case RMEM_CALL_STAT:
		return stat_new(calls->module, answer->stats);
	case RMEM_CALL_LIST:
		return stats_of(calls, entry, answer);
	default:
		return NULL;
	}
}

static void answered(struct calls *calls, const struct rmem_answer *answer)
{
	struct entry *entry = entry_of(calls, answer->cookie);
	PyObject *result, *error = NULL;

	if (!entry)
		return;
	if (answer->status < 0) {
		fail(calls, entry, answer->status,
		     rmem_answer_error(calls->handle, answer),
		     (enum rmem_reason)answer->reason);
		return;
	}
	result = result_of(calls, entry, answer);
	if (answer->call == RMEM_CALL_LIST && answer->status == 1 && result) {
		entry->list = result; /* more pages follow */
		return;
	}
	if (PyErr_Occurred())
		error = take_raised();
	end(calls, entry, error, result);
}

/* ---- methods ---- */

static PyObject *calls_flush(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct calls *calls = (struct calls *)object;
	struct rmem_request requests[BATCH];
	unsigned n;

	if (calls_check(calls))
		return NULL;
	while (calls->handle && (n = next_requests(calls, requests))) {
		int begun = rmem_calls_begin(calls->handle, requests, n);

		if (begun == -EOVERFLOW)
			break; /* take() goes on */
		if (begun < 0)
			refuse(calls, begun);
		for (int i = 0; i < begun; i++)
			(void)pop(calls);
	}
	Py_RETURN_NONE;
}

static PyObject *calls_take(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct calls *calls = (struct calls *)object;
	struct rmem_answer answers[BATCH];
	int n;

	if (calls_check(calls))
		return NULL;
	n = rmem_calls_take(calls->handle, answers, BATCH);
	if (n < 0)
		return failure_of_call(calls->module, n);
	for (int i = 0; i < n && calls->handle; i++)
		answered(calls, &answers[i]);
	return calls->handle ? calls_flush(object, NULL) : Py_NewRef(Py_None);
}

static PyObject *calls_cancel(PyObject *object, PyObject *cookie)
{
	struct calls *calls = (struct calls *)object;
	unsigned long long number = PyLong_AsUnsignedLongLong(cookie);
	struct entry *entry;

	if (PyErr_Occurred() || calls_check(calls))
		return NULL;
	entry = entry_of(calls, number);
	if (entry && entry->call == RMEM_CALL_CLOSE)
		Py_RETURN_NONE; /* it has to be done all the same */
	if (entry && entry->waiting) {
		give_back(calls, entry);
		/* the entry itself is freed when its turn has come */
		Py_DECREF(entry_empty(calls, entry));
	} else if (entry) {
		(void)rmem_calls_cancel(calls->handle, number);
		/* its future has ended, and the lease may be detached next */
		entry_unuse(entry);
	}
	Py_RETURN_NONE;
}

static PyObject *calls_fileno(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct calls *calls = (struct calls *)object;

	if (calls_check(calls))
		return NULL;
	return PyLong_FromLong(rmem_calls_fd(calls->handle));
}

/* A session whose close was not begun. */
static void close_waiting(const struct entry *entry)
{
	rmem *session = entry->session;

	if (entry->call != RMEM_CALL_CLOSE)
		return;
	Py_BEGIN_ALLOW_THREADS
	rmem_close(session);
	Py_END_ALLOW_THREADS
}

static void calls_end(struct calls *calls)
{
	rmem_calls *handle = calls->handle;

	calls->handle = NULL;
	if (handle) {
		Py_BEGIN_ALLOW_THREADS
		rmem_calls_free(handle);
		Py_END_ALLOW_THREADS
	}
	for (uint32_t i = 0; i < calls->used; i++)
		if (calls->entries[i].future) {
			if (calls->entries[i].waiting)
				close_waiting(&calls->entries[i]);
			Py_DECREF(entry_empty(calls, &calls->entries[i]));
		}
	calls->used = 0;
	PyMem_Free(calls->entries);
	calls->entries = NULL;
}

static PyObject *calls_close(PyObject *object, PyObject *Py_UNUSED(args))
{
	calls_end((struct calls *)object);
	Py_RETURN_NONE;
}

static void calls_free(PyObject *object)
{
	calls_end((struct calls *)object);
}

static void calls_del(PyObject *object)
{
	object_del(object, calls_free);
}

static PyMethodDef calls_methods[] = {
	{ "__reduce__", failure_reduce, METH_NOARGS, NULL },
	{ "begin", calls_begin, METH_VARARGS,
	  "begin($self, future, call, target, name, tenant, value, params, /)\n--\n\n"
	  "Let a call wait for flush().  Returns its cookie." },
	{ "flush", calls_flush, METH_NOARGS,
	  "flush($self, /)\n--\n\nBegin what waits." },
	{ "take", calls_take, METH_NOARGS,
	  "take($self, /)\n--\n\nTake answers: future.complete(error, result)." },
	{ "cancel", calls_cancel, METH_O,
	  "cancel($self, cookie, /)\n--\n\nEnd a call; whether it takes effect is not "
	  "known." },
	{ "fileno", calls_fileno, METH_NOARGS,
	  "fileno($self, /)\n--\n\nA descriptor, readable while there are answers." },
	{ "close", calls_close, METH_NOARGS,
	  "close($self, /)\n--\n\nEnd all calls; their futures are left alone." },
	{ 0 },
};

static PyType_Slot calls_slots[] = {
	{ Py_tp_doc, "The server calls of one event loop, for rmem.aio." },
	{ Py_tp_dealloc, calls_del },
	{ Py_tp_methods, calls_methods },
	{ 0 },
};

PyType_Spec calls_spec = {
	.name = "rmem._rmem.Calls",
	.basicsize = sizeof(struct calls),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION |
		 Py_TPFLAGS_IMMUTABLETYPE,
	.slots = calls_slots,
};
