// SPDX-License-Identifier: BSD-3-Clause
#include "python/driver.h"

#include <errno.h>
#include <pythread.h>

#include "python/arguments.h"
#include "python/failure.h"
#include "python/object.h"
#include "python/lane.h"

#define SLOTS 65536 /* operations that are outstanding or wait for the queue */
#define BATCH 64    /* operations submitted, and completions taken, at a time */

struct driver {
	PyObject head;
	struct lane lane;
	unsigned long thread;
	PyObject *complete; /* the name of what futures have */
	PyObject *error;    /* why it was closed; NULL: the session is closed */
	/* slots that wait for the queue, in their order; one that is empty was cancelled */
	uint32_t first; /* LANE_NONE: none */
	uint32_t last;
};

/* The driver has ended with the operation outstanding. */
static void abandon(struct lane *lane, PyObject *future)
{
	struct driver *driver =
		(struct driver *)((char *)lane - offsetof(struct driver, lane));
	PyObject *error = Py_XNewRef(driver->error);
	PyObject *result;

	if (!error)
		error = failure_new(lane->session->module, -ESTALE,
				    "the session is closed", RMEM_REASON_NONE);
	result = error ? PyObject_CallMethod(future, "abandon", "O", error) : NULL;
	if (!result)
		PyErr_WriteUnraisable(future);
	Py_XDECREF(error);
	Py_XDECREF(result);
}

PyObject *driver_open(PyObject *session, PyObject *Py_UNUSED(args))
{
	struct session *of = (struct session *)session;
	struct driver *driver = object_new(of->module->driver);

	if (!driver)
		return NULL;
	driver->thread = PyThread_get_thread_ident();
	driver->first = LANE_NONE;
	driver->lane.abandoned = abandon;
	driver->complete = PyUnicode_InternFromString("complete");
	if (!driver->complete || lane_begin(&driver->lane, of, SLOTS)) {
		Py_DECREF((PyObject *)driver);
		return NULL;
	}
	Py_INCREF(session);
	return (PyObject *)driver;
}

static void driver_free(PyObject *object)
{
	struct driver *driver = (struct driver *)object;
	PyObject *session = (PyObject *)driver->lane.session;

	lane_end(&driver->lane);
	Py_XDECREF(driver->complete);
	Py_XDECREF(driver->error);
	Py_XDECREF((PyObject *)session);
}

static void driver_del(PyObject *object)
{
	object_del(object, driver_free);
}

static int driver_check(const struct driver *driver)
{
	if (driver->thread == PyThread_get_thread_ident())
		return lane_check(&driver->lane);
	PyErr_SetString(PyExc_RuntimeError,
			"another thread than that of the event loop: use "
			"asyncio.run_coroutine_threadsafe()");
	return -1;
}

/* ---- to the queue ---- */

/* The operands of an operation: what add() takes after the offset. */
static int operands_of(PyObject *const *args, Py_ssize_t n, enum rmem_opcode opcode,
		       struct operands *ret_operands)
{
	struct operands operands = { 0 };
	uint64_t first, second;

	if (n != 4) {
		PyErr_SetString(PyExc_TypeError, "add() takes 5 arguments, or 9");
		return -1;
	}
	if (arguments_u64(args[0], &operands.bytes) || arguments_u64(args[1], &first) ||
	    arguments_u64(args[2], &second))
		return -1;
	if (opcode == RMEM_OP_COPY) {
		operands.source.offset = first;
		operands.source_lease = (struct lease *)args[3];
	} else if (opcode == RMEM_OP_CAS || opcode == RMEM_OP_FETCH_ADD) {
		operands.atomic.compare = first;
		operands.atomic.operand = second;
	} else {
		operands.number = first;
	}
	*ret_operands = operands;
	return 0;
}

/* Let the slot wait.  Returns its cookie. */
static PyObject *push(struct driver *driver, struct slot *slot)
{
	uint32_t i = (uint32_t)(slot - driver->lane.slots);

	slot->next = LANE_NONE;
	slot->waiting = true;
	if (driver->first == LANE_NONE)
		driver->first = i;
	else
		driver->lane.slots[driver->last].next = i;
	driver->last = i;
	return PyLong_FromUnsignedLongLong(i | (uint64_t)slot->turn << 32);
}

/* add(future, opcode, lease, memory, offset[, bytes, first, second, source]) */
static PyObject *driver_add(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
	struct driver *driver = (struct driver *)object;
	struct lane *lane = &driver->lane;
	struct operands operands;
	struct slot *slot;
	uint64_t offset;
	long opcode;

	if (n < 5) {
		PyErr_SetString(PyExc_TypeError, "add() takes 5 arguments, or 9");
		return NULL;
	}
	opcode = PyLong_AsLong(args[1]);
	if (PyErr_Occurred() || arguments_u64(args[4], &offset) ||
	    (n > 5 &&
	     operands_of(args + 5, n - 5, (enum rmem_opcode)opcode, &operands)) ||
	    driver_check(driver))
		return NULL;
	slot = lane_take(lane, (enum rmem_opcode)opcode, args[2], args[3], offset,
			 args[0]);
	if (!slot)
		return NULL;
	if (n > 5 && lane_add_operands(lane, slot, &operands)) {
		Py_DECREF(lane_empty(slot));
		lane_free(lane, slot);
		return NULL;
	}
	return push(driver, slot);
}

static struct slot *pop(struct driver *driver)
{
	struct slot *slot = &driver->lane.slots[driver->first];

	driver->first = slot->next;
	slot->waiting = false;
	return slot;
}

/* End the operation: future.complete(error).  What that raises is nobody's: the loop's closed. */
static void end(struct driver *driver, struct slot *slot, PyObject *error)
{
	PyObject *future = lane_empty(slot);
	PyObject *result;

	lane_free(&driver->lane, slot);
	result = PyObject_CallMethodObjArgs(future, driver->complete,
					    error ? error : Py_None, NULL);
	if (!result)
		PyErr_WriteUnraisable(future);
	Py_XDECREF(result);
	Py_DECREF(future);
}

/* The operations that are next, without those that were cancelled.  Returns their number. */
static unsigned next_ops(struct driver *driver, struct rmem_op *ops)
{
	struct lane *lane = &driver->lane;
	unsigned n = 0;

	while (driver->first != LANE_NONE && !lane->slots[driver->first].lease)
		lane_free(lane, pop(driver));
	for (uint32_t i = driver->first; i != LANE_NONE && n < BATCH;
	     i = lane->slots[i].next) {
		if (!lane->slots[i].lease)
			break;
		ops[n++] = lane_op(lane, &lane->slots[i]);
	}
	return n;
}

/* The first operation was refused: it ends, the others go on. */
static int refuse(struct driver *driver, int status)
{
	PyObject *error = failure_new(driver->lane.session->module, status,
				      rmem_error(), RMEM_REASON_NONE);

	if (!error)
		return -1;
	if (driver->lane.slots) /* Python has run, and may have ended the lane */
		end(driver, pop(driver), error);
	Py_DECREF(error);
	return 0;
}

/* Submit what waits, as far as the queue has room.  Returns 0, or -1 with an exception set. */
static int submit_waiting(struct driver *driver)
{
	struct rmem_op ops[BATCH];
	unsigned n;

	while (driver->lane.queue && (n = next_ops(driver, ops))) {
		int accepted = rmem_submit(driver->lane.queue, ops, n);

		if (accepted == -EOVERFLOW)
			break;
		if (accepted < 0 && refuse(driver, accepted))
			return -1;
		for (int i = 0; i < accepted; i++)
			(void)pop(driver);
	}
	return 0;
}

static PyObject *driver_flush(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct driver *driver = (struct driver *)object;

	if (driver_check(driver) || submit_waiting(driver))
		return NULL;
	Py_RETURN_NONE;
}

/* ---- from the queue ---- */

static int complete(struct driver *driver, const struct rmem_completion *completion)
{
	struct lane *lane = &driver->lane;
	PyObject *error = NULL;
	struct slot *slot;

	if (completion->status) {
		error = failure_new(lane->session->module, completion->status,
				    rmem_completion_error(lane->queue, completion),
				    (enum rmem_reason)completion->reason);
		if (!error)
			return -1;
	}
	/* only now: Python has run, and may have ended the lane */
	slot = lane_slot(lane, completion->cookie);
	if (slot && !error)
		error = lane_arrived(slot);
	if (slot)
		end(driver, slot, error);
	Py_XDECREF(error);
	return 0;
}

/* drain(n): complete about n, submit what waits, and arm.  Returns False if there are more. */
static PyObject *driver_drain(PyObject *object, PyObject *limit)
{
	struct driver *driver = (struct driver *)object;
	struct rmem_completion completions[BATCH];
	long left = PyLong_AsLong(limit);

	if (PyErr_Occurred() || driver_check(driver))
		return NULL;
	while (driver->lane.queue) {
		int n = rmem_poll(driver->lane.queue, completions, BATCH);

		for (int i = 0; i < n && driver->lane.queue; i++)
			if (complete(driver, &completions[i]))
				return NULL;
		if (n < 0)
			return failure_of_call(driver->lane.session->module, n);
		if (submit_waiting(driver))
			return NULL;
		left -= n;
		if (n == BATCH && left > 0)
			continue;
		if (n == BATCH)
			Py_RETURN_FALSE;
		n = driver->lane.queue ? rmem_queue_arm(driver->lane.queue) : 0;
		if (n < 0)
			return failure_of_call(driver->lane.session->module, n);
		if (!n)
			break;
		if (left <= 0)
			Py_RETURN_FALSE;
	}
	Py_RETURN_TRUE;
}

/* ---- the rest ---- */

/* cancel(cookie, posted): end the operation if it waits, or where `posted` if the queue has it.
 * Returns True if it has waited: it has ended without complete(). */
static PyObject *driver_cancel(PyObject *object, PyObject *args)
{
	struct driver *driver = (struct driver *)object;
	unsigned long long cookie;
	struct slot *slot;
	int posted, err = 0;

	if (!PyArg_ParseTuple(args, "Kp:cancel", &cookie, &posted) ||
	    driver_check(driver))
		return NULL;
	slot = lane_slot(&driver->lane, cookie);
	if (slot && slot->waiting) {
		/* the slot itself is freed when its turn has come */
		Py_DECREF(lane_empty(slot));
		Py_RETURN_TRUE;
	}
	if (slot && posted)
		err = rmem_cancel_cookie(driver->lane.queue, cookie);
	if (err < 0)
		return failure_of_call(driver->lane.session->module, err);
	Py_RETURN_FALSE;
}

static PyObject *driver_posted(PyObject *object, PyObject *cookie)
{
	struct driver *driver = (struct driver *)object;
	unsigned long long number = PyLong_AsUnsignedLongLong(cookie);
	const struct slot *slot;

	if (PyErr_Occurred() || driver_check(driver))
		return NULL;
	slot = lane_slot(&driver->lane, number);
	return PyBool_FromLong(slot && !slot->waiting);
}

static PyObject *driver_fileno(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct driver *driver = (struct driver *)object;

	if (driver_check(driver))
		return NULL;
	return PyLong_FromLong(rmem_queue_fd(driver->lane.queue));
}

void driver_attach(PyObject *object, rmem_queue *queue)
{
	struct driver *driver = (struct driver *)object;

	if (driver->lane.slots)
		driver->lane.queue = queue;
	else if (session_open_here(driver->lane.session))
		rmem_queue_free(queue); /* else it has ended with its session */
}

static PyObject *driver_close(PyObject *object, PyObject *args)
{
	struct driver *driver = (struct driver *)object;
	PyObject *error = NULL;

	if (!PyArg_ParseTuple(args, "|O:close", &error))
		return NULL;
	if (!driver->error && driver->lane.slots)
		driver->error = Py_XNewRef(error);
	lane_end(&driver->lane);
	Py_RETURN_NONE;
}

static PyObject *driver_closed(PyObject *object, void *Py_UNUSED(closure))
{
	return PyBool_FromLong(!((struct driver *)object)->lane.slots);
}

static PyMethodDef driver_methods[] = {
	{ "__reduce__", failure_reduce, METH_NOARGS, NULL },
	{ "add", METHOD(driver_add), METH_FASTCALL,
	  "add($self, future, opcode, lease, memory, offset, bytes=0, first=0, "
	  "second=0, "
	  "source=None, /)\n--\n\n"
	  "Hold the memory, and let the operation wait for flush().  Returns its "
	  "cookie." },
	{ "flush", driver_flush, METH_NOARGS,
	  "flush($self, /)\n--\n\nSubmit what waits." },
	{ "drain", driver_drain, METH_O,
	  "drain($self, n, /)\n--\n\n"
	  "Complete futures, about n, and arm the descriptor.  False: there are "
	  "more." },
	{ "cancel", driver_cancel, METH_VARARGS,
	  "cancel($self, cookie, posted, /)\n--\n\n"
	  "End an operation that waits, or is posted.  True: it has waited, and has "
	  "ended without\n"
	  "complete()." },
	{ "posted", driver_posted, METH_O,
	  "posted($self, cookie, /)\n--\n\nTrue if the queue has the operation." },
	{ "fileno", driver_fileno, METH_NOARGS,
	  "fileno($self, /)\n--\n\nThe queue's descriptor." },
	{ "close", driver_close, METH_VARARGS,
	  "close($self, error=None, /)\n--\n\nEnd all operations: "
	  "future.abandon(error)." },
	{ 0 },
};

static PyGetSetDef driver_getset[] = {
	{ "closed", driver_closed, NULL, "True once it has ended.", NULL },
	{ 0 },
};

static PyType_Slot driver_slots[] = {
	{ Py_tp_doc, "The operations of one event loop on one session, for rmem.aio." },
	{ Py_tp_dealloc, driver_del },
	{ Py_tp_methods, driver_methods },
	{ Py_tp_getset, driver_getset },
	{ 0 },
};

PyType_Spec driver_spec = {
	.name = "rmem._rmem.Driver",
	.basicsize = sizeof(struct driver),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION |
		 Py_TPFLAGS_IMMUTABLETYPE,
	.slots = driver_slots,
};
