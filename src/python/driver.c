// SPDX-License-Identifier: BSD-3-Clause
#include "python/driver.h"

#include <errno.h>
#include <pythread.h>

#include "python/arguments.h"
#include "python/failure.h"
#include "python/object.h"
#include "python/lane.h"
#include "python/operation.h"

#define SLOTS 65536 /* operations that are outstanding or wait for the queue */
#define BATCH 64    /* operations submitted, and completions taken, at a time */

struct driver {
	PyObject head;
	struct lane lane;
	unsigned long thread;
	PyObject *loop;  /* not held: the driver ends before it does */
	bool woken;      /* the loop is about to call flush() */
	PyObject *error; /* why it was closed; NULL: the session is closed */
	/* slots that wait for the queue, in their order; one that is empty was cancelled */
	uint32_t first; /* LANE_NONE: none */
	uint32_t last;
};

/* The driver has ended with the operation outstanding. */
static void abandon(struct lane *lane, PyObject *operation)
{
	struct driver *driver =
		(struct driver *)((char *)lane - offsetof(struct driver, lane));
	PyObject *error = Py_XNewRef(driver->error);

	if (!error)
		error = failure_new(lane->session->module, -ESTALE,
				    "the session is closed", RMEM_REASON_NONE);
	if (error)
		operation_abandon((struct operation *)operation, error);
	else
		PyErr_WriteUnraisable(operation);
	Py_XDECREF(error);
}

static PyObject *driver_new(PyTypeObject *type, PyObject *args,
			    PyObject *Py_UNUSED(keywords))
{
	struct module *module = module_of_type(type);
	PyObject *session, *loop;
	struct driver *driver;

	if (!module || module_import_asyncio(module) ||
	    !PyArg_ParseTuple(args, "O!O:Driver", module->session, &session, &loop) ||
	    !(driver = object_new(type)))
		return NULL;
	driver->thread = PyThread_get_thread_ident();
	driver->loop = loop;
	driver->first = LANE_NONE;
	driver->lane.abandoned = abandon;
	if (lane_begin(&driver->lane, (struct session *)session, SLOTS)) {
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

/* Let the loop call flush(), once for all operations of a turn.  Returns 0, or -1 with an exception
 * set: the loop is closed. */
static int wake(struct driver *driver)
{
	PyObject *flush, *handle;

	if (driver->woken)
		return 0;
	flush = PyObject_GetAttrString((PyObject *)driver, "flush");
	handle = flush ? PyObject_CallMethod(driver->loop, "call_soon", "O", flush)
		       : NULL;
	Py_XDECREF(flush);
	if (!handle)
		return -1;
	Py_DECREF(handle);
	driver->woken = true;
	return 0;
}

/* Let the slot wait.  Returns its cookie. */
static uint64_t push(struct driver *driver, struct slot *slot)
{
	uint32_t i = (uint32_t)(slot - driver->lane.slots);

	slot->next = LANE_NONE;
	slot->waiting = true;
	if (driver->first == LANE_NONE)
		driver->first = i;
	else
		driver->lane.slots[driver->last].next = i;
	driver->last = i;
	return i | (uint64_t)slot->turn << 32;
}

static struct operation *operation_begin(struct driver *driver, unsigned n)
{
	if (driver_check(driver) || wake(driver))
		return NULL;
	return operation_new(driver->lane.session->module, (PyObject *)driver,
			     driver->loop, n);
}

PyObject *driver_begin(PyObject *object, enum rmem_opcode opcode, PyObject *lease,
		       PyObject *memory, uint64_t offset,
		       const struct operands *operands)
{
	struct driver *driver = (struct driver *)object;
	struct operation *operation = operation_begin(driver, 1);
	struct slot *slot;

	if (!operation)
		return NULL;
	slot = lane_take(&driver->lane, opcode, lease, memory, offset,
			 (PyObject *)operation);
	if (!slot)
		goto free_operation;
	if (operands && lane_add_operands(&driver->lane, slot, operands))
		goto free_slot;
	operation->cookie = push(driver, slot);
	return (PyObject *)operation;

free_slot:
	Py_DECREF(lane_empty(slot));
	lane_free(&driver->lane, slot);
free_operation:
	Py_DECREF((PyObject *)operation);
	return NULL;
}

/* begin(opcode, lease, memory, offset, bytes, first, second, source) */
static PyObject *driver_begin_other(PyObject *object, PyObject *const *args,
				    Py_ssize_t n)
{
	struct operands operands = { 0 };
	uint64_t offset, first, second;
	long opcode;

	if (n != 8)
		return PyErr_Format(PyExc_TypeError, "begin() takes 8 arguments");
	opcode = PyLong_AsLong(args[0]);
	if (PyErr_Occurred() || arguments_u64(args[3], &offset) ||
	    arguments_u64(args[4], &operands.bytes) || arguments_u64(args[5], &first) ||
	    arguments_u64(args[6], &second))
		return NULL;
	if (opcode == RMEM_OP_COPY) {
		operands.source.offset = first;
		operands.source_lease = (struct lease *)args[7];
	} else if (opcode == RMEM_OP_CAS || opcode == RMEM_OP_FETCH_ADD) {
		operands.atomic.compare = first;
		operands.atomic.operand = second;
	} else {
		operands.number = first;
	}
	return driver_begin(object, (enum rmem_opcode)opcode, args[1], args[2], offset,
			    &operands);
}

/* Begin those of the batch.  Returns 0, or -1 with an exception set. */
static int begin_each(struct driver *driver, struct operation *operation,
		      enum rmem_opcode opcode, PyObject *lease, PyObject *memories,
		      PyObject *offsets)
{
	for (unsigned i = 0; i < operation->n; i++) {
		struct slot *slot;
		uint64_t offset;

		if (arguments_u64(PyTuple_GetItem(offsets, i), &offset))
			return -1;
		slot = lane_take(&driver->lane, opcode, lease,
				 PyTuple_GetItem(memories, i), offset,
				 (PyObject *)operation);
		if (!slot)
			return -1;
		operation->cookies[i] = push(driver, slot);
	}
	return 0;
}

/* End those of its operations that wait: their slots are freed when their turn has come.  Returns
 * their number. */
static unsigned drop(struct driver *driver, struct operation *operation)
{
	unsigned n = 0;

	for (unsigned i = 0; i < operation->n; i++) {
		struct slot *slot = lane_slot(&driver->lane, operation->cookies[i]);

		if (!slot || !slot->waiting || slot->tag != (PyObject *)operation)
			continue;
		Py_DECREF(lane_empty(slot));
		n++;
	}
	return n;
}

static PyObject *begin_many(struct driver *driver, enum rmem_opcode opcode,
			    PyObject *lease, PyObject *memories, PyObject *offsets)
{
	Py_ssize_t n = PyTuple_Size(memories);
	struct operation *operation;

	if (n != PyTuple_Size(offsets) || n > SLOTS)
		return PyErr_Format(PyExc_ValueError,
				    "as many memories as offsets are needed, and at "
				    "most %d",
				    SLOTS);
	operation = operation_begin(driver, (unsigned)n);
	if (!operation)
		return NULL;
	if (begin_each(driver, operation, opcode, lease, memories, offsets)) {
		PyObject *type, *value, *traceback;

		PyErr_Fetch(&type, &value, &traceback);
		(void)drop(driver, operation);
		PyErr_Restore(type, value, traceback);
		Py_DECREF((PyObject *)operation);
		return NULL;
	}
	if (!n)
		operation_part_ended(operation, NULL, NULL);
	return (PyObject *)operation;
}

static PyObject *driver_begin_many(PyObject *object, PyObject *args)
{
	PyObject *lease, *memories, *offsets, *result = NULL;
	int opcode;

	if (!PyArg_ParseTuple(args, "iOOO:begin_many", &opcode, &lease, &memories,
			      &offsets))
		return NULL;
	memories = PySequence_Tuple(memories);
	offsets = memories ? PySequence_Tuple(offsets) : NULL;
	if (offsets)
		result = begin_many((struct driver *)object, (enum rmem_opcode)opcode,
				    lease, memories, offsets);
	Py_XDECREF(memories);
	Py_XDECREF(offsets);
	return result;
}

static struct slot *pop(struct driver *driver)
{
	struct slot *slot = &driver->lane.slots[driver->first];

	driver->first = slot->next;
	slot->waiting = false;
	return slot;
}

/* The number that the operation has written to its memory, if it is one that does.  Returns NULL
 * for another, or with an exception set. */
static PyObject *number_of(const struct slot *slot)
{
	uint64_t number;
	uint32_t crc;

	switch ((enum rmem_opcode)slot->opcode) {
	case RMEM_OP_CAS:
	case RMEM_OP_FETCH_ADD:
		memcpy(&number, slot->memory.addr, sizeof(number));
		return PyLong_FromUnsignedLongLong(number);
	case RMEM_OP_CRC:
		memcpy(&crc, slot->memory.addr, sizeof(crc));
		return PyLong_FromUnsignedLong(crc);
	default:
		return NULL;
	}
}

/* End the operation. */
static void end(struct driver *driver, struct slot *slot, PyObject *error)
{
	PyObject *number =
		error || slot->opcode <= RMEM_OP_WRITE ? NULL : number_of(slot);
	PyObject *operation = lane_empty(slot);

	lane_free(&driver->lane, slot);
	operation_part_ended((struct operation *)operation, number, error);
	Py_XDECREF(number);
	Py_DECREF(operation);
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

	driver->woken = false;
	if (driver->lane.slots && (driver_check(driver) || submit_waiting(driver)))
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

/* Let cancel_soon() end those that the queue has. */
static int cancel_posted(struct driver *driver, const struct operation *operation)
{
	for (unsigned i = 0; i < operation->n; i++) {
		uint64_t cookie = operation->cookies[i];
		const struct slot *slot = lane_slot(&driver->lane, cookie);
		PyObject *none;

		if (!slot || slot->waiting)
			continue;
		none = PyObject_CallMethod((PyObject *)driver, "cancel_soon", "K",
					   (unsigned long long)cookie);
		if (!none)
			return -1;
		Py_DECREF(none);
	}
	return 0;
}

static PyObject *driver_cancel(PyObject *object, PyObject *arg)
{
	struct driver *driver = (struct driver *)object;
	struct operation *operation = (struct operation *)arg;
	unsigned dropped;

	if (Py_TYPE(arg) != driver->lane.session->module->operation)
		return PyErr_Format(PyExc_TypeError, "it is no Operation");
	if (!driver->lane.slots)
		Py_RETURN_NONE; /* it ends with the driver */
	if (driver_check(driver))
		return NULL;
	dropped = drop(driver, operation);
	/* a future does not end inside its cancel() */
	if ((dropped && operation_drop(operation, dropped)) ||
	    cancel_posted(driver, operation))
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *driver_cancel_posted(PyObject *object, PyObject *cookie)
{
	struct driver *driver = (struct driver *)object;
	unsigned long long number = PyLong_AsUnsignedLongLong(cookie);
	const struct slot *slot;
	int err = 0;

	if (PyErr_Occurred() || driver_check(driver))
		return NULL;
	slot = lane_slot(&driver->lane, number);
	if (slot && !slot->waiting)
		err = rmem_cancel_cookie(driver->lane.queue, number);
	if (err < 0)
		return failure_of_call(driver->lane.session->module, err);
	Py_RETURN_NONE;
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

bool driver_is_of(PyObject *object, const PyObject *loop)
{
	const struct driver *driver = (struct driver *)object;

	return driver->lane.slots && driver->loop == loop;
}

static PyObject *driver_closed(PyObject *object, void *Py_UNUSED(closure))
{
	return PyBool_FromLong(!((struct driver *)object)->lane.slots);
}

static PyMethodDef driver_methods[] = {
	{ "__reduce__", failure_reduce, METH_NOARGS, NULL },
	{ "begin", METHOD(driver_begin_other), METH_FASTCALL,
	  "begin($self, opcode, lease, memory, offset, bytes, first, second, source, "
	  "/)\n--\n\n"
	  "Hold the memory, and let the operation wait for flush(): an Operation." },
	{ "begin_many", driver_begin_many, METH_VARARGS,
	  "begin_many($self, opcode, lease, memories, offsets, /)\n--\n\n"
	  "The same of many reads or writes, for which there is one Operation." },
	{ "flush", driver_flush, METH_NOARGS,
	  "flush($self, /)\n--\n\nSubmit what waits." },
	{ "drain", driver_drain, METH_O,
	  "drain($self, n, /)\n--\n\n"
	  "Complete futures, about n, and arm the descriptor.  False: there are "
	  "more." },
	{ "cancel", driver_cancel, METH_O,
	  "cancel($self, operation, /)\n--\n\n"
	  "End what waits of it, and call cancel_soon(cookie) for what the queue "
	  "has." },
	{ "cancel_posted", driver_cancel_posted, METH_O,
	  "cancel_posted($self, cookie, /)\n--\n\nCancel an operation, if the queue "
	  "has it." },
	{ "fileno", driver_fileno, METH_NOARGS,
	  "fileno($self, /)\n--\n\nThe queue's descriptor." },
	{ "close", driver_close, METH_VARARGS,
	  "close($self, error=None, /)\n--\n\nEnd all operations, with an error." },
	{ 0 },
};

static PyGetSetDef driver_getset[] = {
	{ "closed", driver_closed, NULL, "True once it has ended.", NULL },
	{ 0 },
};

static PyType_Slot driver_slots[] = {
	{ Py_tp_doc,
	  "Driver(session, loop): the operations of one loop on one session.\n\n"
	  "rmem.aio adds cancel_soon(), and binds its descriptor to the loop." },
	{ Py_tp_new, driver_new },
	{ Py_tp_dealloc, driver_del },
	{ Py_tp_methods, driver_methods },
	{ Py_tp_getset, driver_getset },
	{ 0 },
};

PyType_Spec driver_spec = {
	.name = "rmem._rmem.Driver",
	.basicsize = sizeof(struct driver),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = driver_slots,
};
