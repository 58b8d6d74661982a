// SPDX-License-Identifier: BSD-3-Clause
#include "python/batch.h"

#include <errno.h>
#include <stdio.h>

#include "python/arguments.h"
#include "python/failure.h"
#include "python/memory.h"
#include "python/registry.h"
#include "python/signals.h"
#include "python/staging.h"

#define DEPTH 1024
#define SLICE_MS 100 /* after which signals are looked at */
#define FEW 64       /* operations for which no memory is allocated */

struct batch {
	struct lease *lease;
	struct rmem_op op; /* what all have in common */
	struct rmem_op *ops;
	unsigned n;
	struct memory *memories;
	unsigned n_memories; /* taken */
	unsigned submitted;
	unsigned done;
	int status; /* of the first one that failed */
	char text[512];
	struct rmem_op few_ops[FEW];
	struct memory few_memories[FEW];
};

/* ---- what to do ---- */

/* Memory for n of something: `few`, or else allocated; NULL with an exception set. */
static void *room_for(Py_ssize_t n, size_t bytes, void *few)
{
	void *room = few;

	if (n > INT32_MAX)
		PyErr_SetString(PyExc_ValueError, "too many offsets");
	else if (n > FEW && !(room = PyMem_Malloc((size_t)n * bytes)))
		(void)PyErr_NoMemory();
	return n > INT32_MAX ? NULL : room;
}

static int operations_new(struct batch *batch, Py_ssize_t n)
{
	batch->n = (unsigned)n;
	batch->ops = room_for(n, sizeof(*batch->ops), batch->few_ops);
	return batch->ops ? 0 : -1;
}

static int offsets_of_buffer(struct batch *batch, const Py_buffer *view)
{
	const char *format = view->format ? view->format : "B";
	struct rmem_op *op;
	const char *at;

	if (format[0] == '<' || format[0] == '=' || format[0] == '@')
		format++;
	if (view->itemsize != sizeof(uint64_t) || !strchr("qQlL", format[0]) ||
	    format[1]) {
		PyErr_SetString(PyExc_TypeError,
				"offsets is a buffer, but not of 64-bit integers");
		return -1;
	}
	if (operations_new(batch, view->len / view->itemsize))
		return -1;
	at = view->buf;
	for (op = batch->ops; op < batch->ops + batch->n;
	     op++, at += sizeof(op->offset)) {
		*op = batch->op;
		memcpy(&op->offset, at, sizeof(op->offset));
	}
	return 0;
}

static int offsets_of_tuple(struct batch *batch, PyObject *offsets)
{
	if (operations_new(batch, PyTuple_Size(offsets)))
		return -1;
	for (unsigned i = 0; i < batch->n; i++) {
		batch->ops[i] = batch->op;
		if (arguments_u64(PyTuple_GetItem(offsets, i), &batch->ops[i].offset))
			return -1;
	}
	return 0;
}

static int take_offsets(struct batch *batch, PyObject *offsets)
{
	PyObject *tuple;
	Py_buffer view;
	int err;

	if (PyObject_CheckBuffer(offsets)) {
		if (PyObject_GetBuffer(offsets, &view,
				       PyBUF_C_CONTIGUOUS | PyBUF_FORMAT))
			return -1;
		err = offsets_of_buffer(batch, &view);
		PyBuffer_Release(&view);
		return err;
	}
	tuple = PySequence_Tuple(offsets);
	err = tuple ? offsets_of_tuple(batch, tuple) : -1;
	Py_XDECREF(tuple);
	return err;
}

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

/* Take an object's memory for an operation. */
static inline int take(struct session *session, PyObject *object, bool writable,
		       struct rmem_op *op, struct memory *memory)
{
	if (registry_take(session, object, writable, memory))
		return -1;
	op->addr = memory->addr;
	op->bytes = memory->bytes;
	return 0;
}

static int take_each(struct batch *batch, PyObject *memories)
{
	PyObject *(*item)(PyObject *, Py_ssize_t) =
		PyList_Check(memories) ? PyList_GetItem : PyTuple_GetItem;
	struct session *session = batch->lease->session;
	bool writable = batch->op.opcode == RMEM_OP_READ;
	struct memory *memory = batch->memories;
	struct rmem_op *op = batch->ops, *end = op + batch->n;

	for (Py_ssize_t i = 0; op < end; i++, op++, memory++) {
		PyObject *object = item(memories, i);
		int err;

		if (!object)
			break;
		Py_INCREF(object); /* the list may change meanwhile */
		err = take(session, object, writable, op, memory);
		Py_DECREF(object);
		if (err)
			break;
	}
	batch->n_memories = (unsigned)(memory - batch->memories);
	return op < end ? -1 : 0;
}

/* One memory, of which each operation has a part. */
static int take_whole(struct batch *batch, PyObject *memory, PyObject *bytes)
{
	if (take(batch->lease->session, memory, batch->op.opcode == RMEM_OP_READ,
		 &batch->op, batch->memories))
		return -1;
	batch->n_memories = 1;
	return split(batch, bytes);
}

static int take_memories(struct batch *batch, PyObject *memories, PyObject *bytes)
{
	bool many = PyList_Check(memories) || PyTuple_Check(memories);

	if (many && PySequence_Size(memories) != batch->n) {
		PyErr_SetString(PyExc_ValueError,
				"as many memories as offsets are needed");
		return -1;
	}
	batch->memories = room_for(many ? batch->n : 1, sizeof(*batch->memories),
				   batch->few_memories);
	if (!batch->memories)
		return -1;
	if (many)
		return take_each(batch, memories);
	return take_whole(batch, memories, bytes);
}

static void batch_end(struct batch *batch)
{
	struct memory *memory = batch->memories;

	for (unsigned i = 0; i < batch->n_memories; i++)
		memory_release(memory++);
	if (batch->memories != batch->few_memories)
		PyMem_Free(batch->memories);
	if (batch->ops != batch->few_ops)
		PyMem_Free(batch->ops);
}

/* ---- doing it, without Python's lock ---- */

static void note(struct batch *batch, int status, const char *text)
{
	if (batch->status)
		return;
	batch->status = status;
	(void)snprintf(batch->text, sizeof(batch->text), "%s", text);
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
	} else if (n != -EINTR) {
		note(batch, n, rmem_error());
		batch->done = batch->submitted;
	}
}

static void open_queue(struct batch *batch, struct session *session)
{
	struct rmem_queue_params params = rmem_queue_params_init();
	int err;

	params.depth = DEPTH;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_queue_create(session->handle, &params, &session->batch_queue);
	Py_END_ALLOW_THREADS
	if (err)
		note(batch, err, rmem_error());
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
	if (!session->batch_queue)
		open_queue(batch, session);
	while (batch->done < batch->n) {
		Py_BEGIN_ALLOW_THREADS
		go_on(batch, session->batch_queue);
		Py_END_ALLOW_THREADS
		if (signals_check()) {
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
	unsigned long self = PyThread_get_thread_ident();
	PyLockStatus got;

	if (session->batch_thread == self) {
		(void)failure_raise(session->module, -EBUSY,
				    "this thread is in a batch on the session");
		return -1;
	}
	got = PyThread_acquire_lock_timed(session->batch_turn, 0, 0);
	while (got != PY_LOCK_ACQUIRED) {
		Py_BEGIN_ALLOW_THREADS
		got = PyThread_acquire_lock_timed(session->batch_turn, SLICE_MS * 1000,
						  0);
		Py_END_ALLOW_THREADS
		if (got != PY_LOCK_ACQUIRED && signals_check())
			return -1;
	}
	session->batch_thread = self;
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
	if (err || (batch->op.opcode == RMEM_OP_READ && session->stagings.bytes > 0 &&
		    arrived(batch)))
		return NULL;
	Py_RETURN_NONE;
}

PyObject *batch_run(struct lease *lease, enum rmem_opcode opcode, PyObject *memories,
		    PyObject *offsets, PyObject *bytes)
{
	struct batch batch;
	PyObject *result;

	if (lease_enter(lease))
		return NULL;
	batch.lease = lease;
	batch.op = rmem_op_init(opcode, lease->handle, 0, 0);
	batch.ops = batch.few_ops;
	batch.memories = batch.few_memories;
	batch.n = batch.n_memories = batch.submitted = batch.done = 0;
	batch.status = 0;
	result = batch_do(&batch, memories, offsets, bytes);
	batch_end(&batch);
	lease_leave(lease);
	return result;
}
