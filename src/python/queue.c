// SPDX-License-Identifier: BSD-3-Clause
#include "python/queue.h"

#include <errno.h>
#include <structmember.h>

#include "python/arguments.h"
#include "python/failure.h"
#include "python/object.h"
#include "python/lane.h"
#include "python/signals.h"

#define SLICE_MS 100           /* after which signals are looked at */
#define COPY_BYTES (256 << 10) /* above which rmem_submit() may take long over TCP */
#define BATCH 64 /* operations submitted, and completions taken, at a time */

struct queue {
	PyObject head;
	struct lane lane;
	bool busy; /* a thread is in a call */
	/* completions that a call did not return, as it raised; NULL: none */
	PyObject *kept;
	PyObject *weak_references;
};

PyObject *queue_open(PyObject *session, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "depth", NULL };
	struct session *of = (struct session *)session;
	struct queue *queue;
	unsigned depth = 128;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O&:queue", names,
					 arguments_to_u32, &depth))
		return NULL;
	if (!depth || depth > RMEM_DEPTH_MAX)
		return PyErr_Format(PyExc_ValueError, "depth is 1 to %d",
				    RMEM_DEPTH_MAX);
	queue = object_new(of->module->queue);
	if (!queue)
		return NULL;
	if (lane_open(&queue->lane, of, depth)) {
		Py_DECREF((PyObject *)queue);
		return NULL;
	}
	Py_INCREF(session);
	return (PyObject *)queue;
}

static int queue_traverse(PyObject *object, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(object));
	Py_VISIT(((struct queue *)object)->kept);
	return lane_traverse(&((struct queue *)object)->lane, visit, arg);
}

static int queue_clear(PyObject *object)
{
	lane_end(&((struct queue *)object)->lane);
	Py_CLEAR(((struct queue *)object)->kept);
	return 0;
}

static void queue_free(PyObject *object)
{
	struct queue *queue = (struct queue *)object;
	PyObject *session = (PyObject *)queue->lane.session;

	if (queue->weak_references)
		PyObject_ClearWeakRefs(object);
	lane_end(&queue->lane);
	Py_XDECREF(queue->kept);
	Py_XDECREF((PyObject *)session);
}

static void queue_del(PyObject *object)
{
	object_del(object, queue_free);
}

/* Begin a call.  Returns 0, or -1 with an exception set. */
static int queue_enter(struct queue *queue)
{
	if (lane_check(&queue->lane))
		return -1;
	if (queue->busy) {
		PyErr_SetString(
			PyExc_RuntimeError,
			"another thread uses the queue: make one for each thread");
		return -1;
	}
	queue->busy = true;
	session_hold(queue->lane.session);
	return 0;
}

static void queue_leave(struct queue *queue)
{
	queue->busy = false;
	session_leave(queue->lane.session);
}

/* ---- submission ---- */

/* An Op: (opcode, lease, memory, offset, tag). */
static struct slot *slot_of_op(struct lane *lane, PyObject *op)
{
	uint64_t offset;
	long opcode;

	if (!op)
		return NULL;
	if (!PyTuple_Check(op) || PyTuple_Size(op) != 5) {
		PyErr_SetString(PyExc_TypeError, "an operation is no rmem.Op");
		return NULL;
	}
	opcode = PyLong_AsLong(PyTuple_GetItem(op, 0));
	if (PyErr_Occurred() || arguments_u64(PyTuple_GetItem(op, 3), &offset))
		return NULL;
	if (opcode != RMEM_OP_READ && opcode != RMEM_OP_WRITE) {
		PyErr_SetString(PyExc_ValueError,
				"the opcode is neither READ nor WRITE");
		return NULL;
	}
	return lane_take(lane, (enum rmem_opcode)opcode, PyTuple_GetItem(op, 1),
			 PyTuple_GetItem(op, 2), offset, op);
}

static void give(struct lane *lane, struct slot *slot)
{
	PyObject *tag = lane_empty(slot);

	lane_free(lane, slot);
	Py_DECREF(tag);
}

/* Returns the number accepted, or -errno with the text. */
static int submit(struct lane *lane, struct slot *const *slots, unsigned n)
{
	struct rmem_op ops[BATCH];
	uint64_t bytes = 0;
	int accepted;

	for (unsigned i = 0; i < n; i++) {
		ops[i] = lane_op(lane, slots[i]);
		bytes += ops[i].bytes;
	}
	if (bytes <= COPY_BYTES)
		return rmem_submit(lane->queue, ops, n);
	Py_BEGIN_ALLOW_THREADS
	accepted = rmem_submit(lane->queue, ops, n);
	Py_END_ALLOW_THREADS
	return accepted;
}

/* Submit up to BATCH of the operations from `first` on.  Returns the number accepted, which is less
 * than there are with an exception set, or -1. */
static Py_ssize_t submit_some(struct lane *lane, PyObject *ops, Py_ssize_t first,
			      Py_ssize_t n)
{
	struct slot *slots[BATCH];
	unsigned taken = 0;
	int accepted = 0;

	while (taken < BATCH && first + taken < n) {
		PyObject *op = PySequence_GetItem(ops, first + taken);
		struct slot *slot = slot_of_op(lane, op);

		Py_XDECREF(op);
		if (!slot)
			break;
		slots[taken++] = slot;
	}
	if (taken) {
		PyObject *type, *value, *traceback;

		PyErr_Fetch(&type, &value,
			    &traceback); /* of the operation that was not taken */
		accepted = submit(lane, slots, taken);
		PyErr_Restore(type, value, traceback);
		if (accepted < 0)
			(void)failure_of_call(lane->session->module, accepted);
	}
	for (unsigned i = accepted < 0 ? 0 : (unsigned)accepted; i < taken; i++)
		give(lane, slots[i]);
	return accepted < 0 ? 0 : accepted;
}

static PyObject *queue_submit(PyObject *object, PyObject *ops)
{
	struct queue *queue = (struct queue *)object;
	Py_ssize_t n = PySequence_Size(ops);
	Py_ssize_t total = 0, accepted = 0;

	if (n < 0 || queue_enter(queue))
		return NULL;
	while (total < n) {
		accepted = submit_some(&queue->lane, ops, total, n);
		total += accepted;
		if (accepted <= 0 || PyErr_Occurred())
			break;
	}
	queue_leave(queue);
	if (PyErr_Occurred()) {
		/* not what a signal's handler raised, which comes once */
		if (!total || !PyErr_ExceptionMatches(PyExc_Exception))
			return NULL;
		PyErr_Clear(); /* the next submission, of the rest, raises it */
	}
	return PyLong_FromSsize_t(total);
}

/* ---- completions ---- */

static PyObject *completion_new(struct lane *lane,
				const struct rmem_completion *completion)
{
	struct module *module = lane->session->module;
	struct slot *slot = lane_slot(lane, completion->cookie);
	PyObject *error = NULL, *result, *op;

	if (completion->status)
		error = failure_new(module, completion->status,
				    rmem_completion_error(lane->queue, completion),
				    (enum rmem_reason)completion->reason);
	else if (slot)
		error = lane_arrived(slot);
	if (!error && !completion->status)
		error = Py_NewRef(Py_None);
	if (!slot) {
		Py_XDECREF(error);
		PyErr_SetString(PyExc_SystemError, "a completion of no operation");
		return NULL;
	}
	op = lane_empty(slot);
	lane_free(lane, slot);
	result = error ? PyObject_CallFunctionObjArgs(module->completion, op, error,
						      NULL)
		       : NULL;
	Py_DECREF(op);
	Py_XDECREF(error);
	return result;
}

static int append_all(struct lane *lane, PyObject *list,
		      const struct rmem_completion *completions, int n)
{
	int err = 0;

	for (int i = 0; i < n; i++) {
		PyObject *completion = completion_new(lane, &completions[i]);

		if (!completion || PyList_Append(list, completion))
			err = -1;
		Py_XDECREF(completion);
	}
	return err;
}

/* The list for completions: that of a call that raised, or a new one. */
static PyObject *list_begin(struct queue *queue)
{
	PyObject *list = queue->kept ? queue->kept : PyList_New(0);

	queue->kept = NULL;
	return list;
}

/* Return the list; or, with an exception set, keep what is in it, and return NULL. */
static PyObject *list_end(struct queue *queue, PyObject *list)
{
	if (!PyErr_Occurred())
		return list;
	if (list && PyList_Size(list))
		queue->kept = list;
	else
		Py_XDECREF(list);
	return NULL;
}

/* Return n of the list, and keep the rest. */
static PyObject *list_split(struct queue *queue, PyObject *list, Py_ssize_t n)
{
	PyObject *first = PyList_GetSlice(list, 0, n);

	queue->kept = list;
	if (first && PyList_SetSlice(list, 0, n, NULL))
		Py_CLEAR(first);
	return first;
}

static PyObject *queue_poll(PyObject *object, PyObject *args)
{
	struct queue *queue = (struct queue *)object;
	struct rmem_completion completions[BATCH];
	PyObject *list;
	unsigned n = 256;
	int got = 0;

	if (!PyArg_ParseTuple(args, "|O&:poll", arguments_to_u32, &n) ||
	    queue_enter(queue))
		return NULL;
	list = list_begin(queue);
	if (list && PyList_Size(list) > (Py_ssize_t)n) {
		list = list_split(queue, list, (Py_ssize_t)n);
		queue_leave(queue);
		return list;
	}
	n -= list ? (unsigned)PyList_Size(list) : 0;
	while (list && n) {
		got = rmem_poll(queue->lane.queue, completions, n < BATCH ? n : BATCH);
		if (got <= 0 || append_all(&queue->lane, list, completions, got))
			break;
		n -= (unsigned)got;
	}
	queue_leave(queue);
	if (got < 0)
		(void)failure_of_call(queue->lane.session->module, got);
	return list_end(queue, list);
}

/* Wait for a completion, in slices of the time.  Returns the number taken, or -1 with an exception
 * set. */
static int wait_some(struct lane *lane, struct rmem_completion *completions, unsigned n,
		     long long *left_ms)
{
	int slice = *left_ms < 0 || *left_ms > SLICE_MS ? SLICE_MS : (int)*left_ms;
	int got;

	Py_BEGIN_ALLOW_THREADS
	got = rmem_wait(lane->queue, completions, n, 1, slice);
	Py_END_ALLOW_THREADS
	if (got < 0)
		(void)failure_of_call(lane->session->module, got);
	if (*left_ms >= 0)
		*left_ms -= slice;
	return got < 0 ? -1 : got;
}

static PyObject *queue_wait(PyObject *object, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "min", "timeout_ms", NULL };
	struct queue *queue = (struct queue *)object;
	struct rmem_completion completions[BATCH];
	PyObject *list;
	unsigned min = 1;
	long long left_ms = -1;
	int err = 0;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O&L:wait", names,
					 arguments_to_u32, &min, &left_ms) ||
	    queue_enter(queue))
		return NULL;
	list = list_begin(queue);
	while (list && !err && PyList_Size(list) < (Py_ssize_t)min &&
	       rmem_queue_outstanding(queue->lane.queue)) {
		int n = wait_some(&queue->lane, completions, BATCH, &left_ms);

		err = n < 0 ? -1 : append_all(&queue->lane, list, completions, n);
		if (!err && !n && signals_check())
			err = -1;
		if (left_ms == 0)
			break;
	}
	queue_leave(queue);
	return list_end(queue, list);
}

/* ---- the rest ---- */

static PyObject *queue_cancel(PyObject *object, PyObject *args)
{
	struct queue *queue = (struct queue *)object;
	PyObject *lease = Py_None;
	int n;

	if (!PyArg_ParseTuple(args, "|O:cancel", &lease) || queue_enter(queue))
		return NULL;
	if (lease != Py_None && Py_TYPE(lease) != queue->lane.session->module->lease) {
		queue_leave(queue);
		PyErr_SetString(PyExc_TypeError, "lease is no Lease");
		return NULL;
	}
	if (lease == Py_None)
		n = rmem_cancel(queue->lane.queue, NULL);
	else if (((struct lease *)lease)->handle)
		n = rmem_cancel(queue->lane.queue, ((struct lease *)lease)->handle);
	else
		n = 0; /* detached: none is on it */
	queue_leave(queue);
	return n < 0 ? failure_of_call(queue->lane.session->module, n)
		     : PyLong_FromLong(n);
}

static PyObject *queue_fileno(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct queue *queue = (struct queue *)object;

	if (lane_check(&queue->lane))
		return NULL;
	return PyLong_FromLong(rmem_queue_fd(queue->lane.queue));
}

static PyObject *queue_arm(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct queue *queue = (struct queue *)object;
	int err;

	if (queue_enter(queue))
		return NULL;
	err = rmem_queue_arm(queue->lane.queue);
	queue_leave(queue);
	return err < 0 ? failure_of_call(queue->lane.session->module, err)
		       : PyBool_FromLong(!err);
}

static PyObject *queue_outstanding(PyObject *object, void *Py_UNUSED(closure))
{
	struct queue *queue = (struct queue *)object;

	unsigned n = queue->lane.queue ? rmem_queue_outstanding(queue->lane.queue) : 0;

	if (queue->kept)
		n += (unsigned)PyList_Size(queue->kept);
	return PyLong_FromUnsignedLong(n);
}

static PyObject *queue_close(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct queue *queue = (struct queue *)object;

	if (!queue->lane.queue)
		Py_RETURN_NONE;
	if (queue_enter(queue))
		return NULL;
	lane_end(&queue->lane);
	queue_leave(queue);
	Py_RETURN_NONE;
}

static PyObject *queue_begin(PyObject *object, PyObject *Py_UNUSED(args))
{
	if (lane_check(&((struct queue *)object)->lane))
		return NULL;
	Py_INCREF(object);
	return object;
}

static PyMethodDef queue_methods[] = {
	{ "__enter__", queue_begin, METH_NOARGS, NULL },
	{ "__exit__", queue_close, METH_VARARGS, NULL },
	{ "__reduce__", failure_reduce, METH_NOARGS, NULL },
	{ "submit", queue_submit, METH_O,
	  "submit($self, ops, /)\n--\n\n"
	  "Submit operations, a sequence of Op, and hold their memory until they "
	  "complete.\n"
	  "Returns how many were accepted.  If the first one is not, its exception is "
	  "raised:\n"
	  "QueueFull, if as many are outstanding as may be." },
	{ "poll", queue_poll, METH_VARARGS,
	  "poll($self, n=256, /)\n--\n\nTake up to n Completions, without waiting." },
	{ "wait", METHOD(queue_wait), METH_VARARGS | METH_KEYWORDS,
	  "wait($self, min=1, timeout_ms=-1)\n--\n\n"
	  "Take Completions, and wait until there are min, or as many as were "
	  "outstanding, or\n"
	  "the time is over; negative: no limit." },
	{ "cancel", queue_cancel, METH_VARARGS,
	  "cancel($self, lease=None, /)\n--\n\n"
	  "Cancel the operations on a lease, or all.  They complete with Cancelled." },
	{ "fileno", queue_fileno, METH_NOARGS,
	  "fileno($self, /)\n--\n\nA descriptor, readable when poll() may have "
	  "completions "
	  "after arm()." },
	{ "arm", queue_arm, METH_NOARGS,
	  "arm($self, /)\n--\n\nArm the descriptor.  False: there are completions "
	  "already, "
	  "poll() first." },
	{ "close", queue_close, METH_NOARGS,
	  "close($self, /)\n--\n\nEnd the queue and its operations, whose memory is "
	  "free "
	  "then." },
	{ 0 },
};

static PyGetSetDef queue_getset[] = {
	{ "outstanding", queue_outstanding, NULL,
	  "How many operations are outstanding.", NULL },
	{ 0 },
};

static PyMemberDef queue_members[] = {
	{ "__weaklistoffset__", T_PYSSIZET, offsetof(struct queue, weak_references),
	  READONLY, NULL },
	{ 0 },
};

static PyType_Slot queue_slots[] = {
	{ Py_tp_doc,
	  "Operations without waiting, of Session.queue(); a context manager.\n\n"
	  "One thread at a time may use it, else RuntimeError.  For asyncio see "
	  "rmem.aio." },
	{ Py_tp_dealloc, queue_del },
	{ Py_tp_traverse, queue_traverse },
	{ Py_tp_clear, queue_clear },
	{ Py_tp_methods, queue_methods },
	{ Py_tp_getset, queue_getset },
	{ Py_tp_members, queue_members },
	{ 0 },
};

PyType_Spec queue_spec = {
	.name = "rmem._rmem.Queue",
	.basicsize = sizeof(struct queue),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
		 Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = queue_slots,
};
