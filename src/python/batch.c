// SPDX-License-Identifier: BSD-3-Clause
#include "python/batch.h"

#include <errno.h>

#include "python/arguments.h"
#include "python/failure.h"
#include "python/memory.h"
#include "python/registry.h"
#include "python/staging.h"

#define DEPTH 1024
#define SLICE_MS 100 /* after which signals are looked at */

struct batch {
	struct lease *lease;
	enum rmem_opcode opcode;
	struct rmem_op *ops;
	unsigned n;
	struct memory *memories;
	unsigned n_memories; /* taken */
	unsigned submitted;
	unsigned done;
	int status; /* of the first one that failed */
	char text[512];
};

/* ---- what to do ---- */

static int offsets_of_buffer(struct batch *batch, const Py_buffer *view)
{
	const char *format = view->format ? view->format : "B";

	if (format[0] == '<' || format[0] == '=' || format[0] == '@')
		format++;
	if (view->itemsize != sizeof(uint64_t) || !strchr("qQlL", format[0]) ||
	    format[1]) {
		PyErr_SetString(PyExc_TypeError,
				"offsets is a buffer, but not of 64-bit integers");
		return -1;
	}
	for (unsigned i = 0; i < batch->n; i++)
		memcpy(&batch->ops[i].offset, (char *)view->buf + i * sizeof(uint64_t),
		       sizeof(uint64_t));
	return 0;
}

static int offsets_of_sequence(struct batch *batch, PyObject *offsets)
{
	for (unsigned i = 0; i < batch->n; i++) {
		PyObject *offset = PySequence_GetItem(offsets, i);
		int err = offset ? arguments_u64(offset, &batch->ops[i].offset) : -1;

		Py_XDECREF(offset);
		if (err)
			return -1;
	}
	return 0;
}

static int operations_new(struct batch *batch, Py_ssize_t n)
{
	if (n < 0)
		return -1;
	if (n > INT32_MAX) {
		PyErr_SetString(PyExc_ValueError, "too many offsets");
		return -1;
	}
	batch->n = (unsigned)n;
	batch->ops = PyMem_Calloc(batch->n + 1, sizeof(*batch->ops));
	if (!batch->ops) {
		(void)PyErr_NoMemory();
		return -1;
	}
	for (unsigned i = 0; i < batch->n; i++)
		batch->ops[i] = rmem_op_init(batch->opcode, batch->lease->handle, 0, 0);
	return 0;
}

static int take_offsets(struct batch *batch, PyObject *offsets)
{
	Py_buffer view;
	int err;

	if (!PyObject_CheckBuffer(offsets))
		return operations_new(batch, PySequence_Size(offsets)) ||
				       offsets_of_sequence(batch, offsets)
			       ? -1
			       : 0;
	if (PyObject_GetBuffer(offsets, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT))
		return -1;
	err = operations_new(batch, view.len / (view.itemsize ? view.itemsize : 1)) ||
			      offsets_of_buffer(batch, &view)
		      ? -1
		      : 0;
	PyBuffer_Release(&view);
	return err;
}

/* One memory, of which each operation has a part. */
static int split(struct batch *batch, PyObject *bytes)
{
	const struct memory *memory = &batch->memories[0];
	uint64_t each = batch->n ? memory->bytes / batch->n : 0;

	if (bytes != Py_None && arguments_u64(bytes, &each))
		return -1;
	if (batch->n && (each > memory->bytes / batch->n ||
			 (bytes == Py_None && each * batch->n != memory->bytes))) {
		PyErr_Format(PyExc_ValueError, "%llu bytes of memory for %u operations",
			     (unsigned long long)memory->bytes, batch->n);
		return -1;
	}
	for (unsigned i = 0; i < batch->n; i++) {
		batch->ops[i].addr = (char *)memory->addr + i * each;
		batch->ops[i].bytes = each;
	}
	return 0;
}

static int take_one(struct batch *batch, PyObject *memory)
{
	struct memory *place = &batch->memories[batch->n_memories];

	if (!memory || registry_take(batch->lease->session, memory,
				     batch->opcode == RMEM_OP_READ, place))
		return -1;
	batch->n_memories++;
	return 0;
}

static int take_each(struct batch *batch, PyObject *memories)
{
	for (unsigned i = 0; i < batch->n; i++) {
		PyObject *memory = PySequence_GetItem(memories, i);
		int err = take_one(batch, memory);

		Py_XDECREF(memory);
		if (err)
			return -1;
		batch->ops[i].addr = batch->memories[i].addr;
		batch->ops[i].bytes = batch->memories[i].bytes;
	}
	return 0;
}

static int take_memories(struct batch *batch, PyObject *memories, PyObject *bytes)
{
	bool many = PyList_Check(memories) || PyTuple_Check(memories);

	if (many && PySequence_Size(memories) != batch->n) {
		PyErr_SetString(PyExc_ValueError,
				"as many memories as offsets are needed");
		return -1;
	}
	batch->memories = PyMem_Calloc(batch->n + 1, sizeof(*batch->memories));
	if (!batch->memories) {
		(void)PyErr_NoMemory();
		return -1;
	}
	if (many)
		return take_each(batch, memories);
	return take_one(batch, memories) ? -1 : split(batch, bytes);
}

static void batch_end(struct batch *batch)
{
	for (unsigned i = 0; i < batch->n_memories; i++)
		memory_release(&batch->memories[i]);
	PyMem_Free(batch->memories);
	PyMem_Free(batch->ops);
}

/* ---- doing it, without Python's lock ---- */

static void note(struct batch *batch, int status, const char *text)
{
	if (batch->status)
		return;
	batch->status = status;
	strncpy(batch->text, text, sizeof(batch->text) - 1);
	batch->n = batch->submitted; /* nothing more is submitted */
}

static void submit(struct batch *batch, rmem_queue *queue)
{
	int accepted;

	if (batch->submitted == batch->n || batch->submitted - batch->done == DEPTH)
		return;
	accepted = rmem_submit(queue, batch->ops + batch->submitted,
			       batch->n - batch->submitted);
	if (accepted < 0)
		note(batch, accepted, rmem_error());
	else
		batch->submitted += (unsigned)accepted;
}

static void reap(struct batch *batch, rmem_queue *queue)
{
	struct rmem_completion completions[64];
	unsigned outstanding = batch->submitted - batch->done;
	int n = rmem_wait(queue, completions, 64, outstanding < 64 ? outstanding : 64,
			  SLICE_MS);

	for (int i = 0; i < n; i++)
		if (completions[i].status)
			note(batch, completions[i].status,
			     rmem_completion_error(queue, &completions[i]));
	if (n >= 0) {
		batch->done += (unsigned)n;
	} else {
		note(batch, n, rmem_error());
		batch->done = batch->submitted;
	}
}

static int open_queue(struct session *session)
{
	struct rmem_queue_params params = rmem_queue_params_init();

	params.depth = DEPTH;
	return session->batch_queue ? 0
				    : rmem_queue_create(session->handle, &params,
							&session->batch_queue);
}

/* Until all has ended, or a slice of the time is over. */
static void go_on(struct batch *batch, rmem_queue *queue)
{
	unsigned before;

	do {
		before = batch->done;
		submit(batch, queue);
		if (batch->done < batch->submitted)
			reap(batch, queue);
	} while (batch->done < batch->n && batch->done > before);
}

/* ---- the call ---- */

/* A signal's handler has raised: end what is outstanding, and raise that. */
static void interrupted(struct batch *batch, rmem_queue *queue)
{
	PyObject *type, *value, *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	Py_BEGIN_ALLOW_THREADS
	batch->n = batch->submitted;
	(void)rmem_cancel(queue, NULL);
	while (batch->done < batch->n)
		go_on(batch, queue);
	Py_END_ALLOW_THREADS
	PyErr_Restore(type, value, traceback);
}

static int run(struct batch *batch, struct session *session)
{
	int err = 0;

	Py_BEGIN_ALLOW_THREADS
	err = open_queue(session);
	if (err)
		note(batch, err, rmem_error());
	Py_END_ALLOW_THREADS
	while (batch->done < batch->n) {
		Py_BEGIN_ALLOW_THREADS
		go_on(batch, session->batch_queue);
		Py_END_ALLOW_THREADS
		if (PyErr_CheckSignals()) {
			interrupted(batch, session->batch_queue);
			return -1;
		}
	}
	if (batch->status) {
		(void)failure_raise(session->module, batch->status, batch->text);
		return -1;
	}
	return 0;
}

static int turn_take(struct session *session)
{
	PyLockStatus got;

	if (session->batch_thread == PyThread_get_thread_ident()) {
		(void)failure_raise(session->module, -EBUSY,
				    "this thread is in a batch on the session");
		return -1;
	}
	do {
		Py_BEGIN_ALLOW_THREADS
		got = PyThread_acquire_lock_timed(session->batch_turn, SLICE_MS * 1000,
						  0);
		Py_END_ALLOW_THREADS
		if (got != PY_LOCK_ACQUIRED && PyErr_CheckSignals())
			return -1;
	} while (got != PY_LOCK_ACQUIRED);
	session->batch_thread = PyThread_get_thread_ident();
	return 0;
}

/* What was read goes to the memory of GPUs. */
static int arrived(const struct batch *batch)
{
	for (unsigned i = 0; i < batch->n_memories; i++) {
		struct staging *staging = batch->memories[i].staging;
		PyObject *error = staging ? staging_copy_out(staging) : NULL;

		if (error) {
			PyErr_SetObject((PyObject *)Py_TYPE(error), error);
			Py_DECREF(error);
			return -1;
		}
	}
	return 0;
}

static void turn_give(struct session *session)
{
	session->batch_thread = 0;
	PyThread_release_lock(session->batch_turn);
}

static PyObject *batch_do(struct batch *batch, PyObject *memories, PyObject *offsets,
			  PyObject *bytes)
{
	struct session *session = batch->lease->session;
	int err;

	if (take_offsets(batch, offsets) || take_memories(batch, memories, bytes) ||
	    turn_take(session))
		return NULL;
	err = run(batch, session);
	turn_give(session);
	if (err || (batch->opcode == RMEM_OP_READ && arrived(batch)))
		return NULL;
	Py_RETURN_NONE;
}

PyObject *batch_run(struct lease *lease, enum rmem_opcode opcode, PyObject *memories,
		    PyObject *offsets, PyObject *bytes)
{
	struct batch batch = { .lease = lease, .opcode = opcode };
	PyObject *result;

	if (lease_enter(lease))
		return NULL;
	result = batch_do(&batch, memories, offsets, bytes);
	batch_end(&batch);
	lease_leave(lease);
	return result;
}
