// SPDX-License-Identifier: BSD-3-Clause
#include "python/operation.h"

#include <structmember.h>

#include "python/arguments.h"
#include "python/object.h"

struct operation *operation_new(const struct module *module, PyObject *driver,
				PyObject *loop, unsigned n)
{
	struct operation *operation = object_new(module->operation);

	if (!operation)
		return NULL;
	operation->module = module;
	operation->loop = Py_NewRef(loop);
	operation->driver = Py_NewRef(driver);
	operation->n = operation->left = n;
	operation->cookies = &operation->cookie;
	if (n > 1 && !(operation->cookies = PyMem_Calloc(n, sizeof(uint64_t)))) {
		Py_DECREF((PyObject *)operation);
		return (struct operation *)PyErr_NoMemory();
	}
	return operation;
}

/* ---- the end ---- */

static bool done(const struct operation *operation)
{
	return !operation->driver;
}

/* Let the loop call a function with the operation.  Returns 0, or -1 with an exception set. */
static int call_soon(struct operation *operation, PyObject *function, PyObject *context)
{
	PyObject *call = PyObject_GetAttrString(operation->loop, "call_soon");
	PyObject *args = Py_BuildValue("(OO)", function, (PyObject *)operation);
	PyObject *keywords = Py_BuildValue("{sO}", "context", context);
	PyObject *handle = NULL;

	if (call && args && keywords)
		handle = PyObject_Call(call, args, keywords);
	Py_XDECREF(call);
	Py_XDECREF(args);
	Py_XDECREF(keywords);
	Py_XDECREF(handle);
	return handle ? 0 : -1;
}

static void call_back(struct operation *operation)
{
	PyObject *callbacks = operation->callbacks;

	operation->callbacks = NULL;
	for (Py_ssize_t i = 0; i < PyList_Size(callbacks); i++) {
		PyObject *one = PyList_GetItem(callbacks, i);

		if (call_soon(operation, PyTuple_GetItem(one, 0),
			      PyTuple_GetItem(one, 1)))
			PyErr_WriteUnraisable((PyObject *)operation); /* closed */
	}
	Py_DECREF(callbacks);
}

static void finish(struct operation *operation)
{
	PyObject *driver = operation->driver;

	/* also if it succeeded: the task's cancellation must not be lost */
	operation->cancelled = operation->message != NULL;
	operation->unseen = operation->error && !operation->cancelled;
	operation->driver = NULL;
	if (operation->callbacks)
		call_back(operation);
	Py_DECREF(driver);
}

void operation_part_ended(struct operation *operation, PyObject *result,
			  PyObject *error)
{
	if (done(operation))
		return;
	if (error && !operation->error)
		operation->error = Py_NewRef(error);
	if (result)
		operation->result = Py_NewRef(result);
	if (operation->left)
		operation->left--;
	if (!operation->left)
		finish(operation);
}

/* _end(error=None): what the loop calls for one of its operations. */
static PyObject *operation_end(PyObject *object, PyObject *args)
{
	PyObject *error = NULL;

	if (!PyArg_ParseTuple(args, "|O:_end", &error))
		return NULL;
	operation_part_ended((struct operation *)object, NULL, error);
	Py_RETURN_NONE;
}

int operation_drop(struct operation *operation, unsigned n)
{
	PyObject *end = PyObject_GetAttrString((PyObject *)operation, "_end");
	PyObject *handle =
		end ? PyObject_CallMethod(operation->loop, "call_soon", "O", end)
		    : NULL;

	operation->left -= n - 1;
	Py_XDECREF(end);
	Py_XDECREF(handle);
	return handle ? 0 : -1;
}

void operation_abandon(struct operation *operation, PyObject *error)
{
	PyObject *end = PyObject_GetAttrString((PyObject *)operation, "_end");
	PyObject *handle =
		end ? PyObject_CallMethod(operation->loop, "call_soon_threadsafe", "OO",
					  end, error)
		    : NULL;

	Py_XDECREF(end);
	Py_XDECREF(handle);
	if (handle)
		return;
	if (PyErr_ExceptionMatches(PyExc_RuntimeError))
		PyErr_Clear(); /* the loop is closed: nobody awaits */
	else
		PyErr_WriteUnraisable((PyObject *)operation);
}

/* ---- what a future has ---- */

static PyObject *cancelled_error(struct operation *operation)
{
	PyObject *kind = operation->module->cancelled_error;

	if (!operation->message || operation->message == Py_None)
		return PyObject_CallNoArgs(kind);
	return PyObject_CallFunctionObjArgs(kind, operation->message, NULL);
}

/* Raise what it ended with, if that is no result.  Returns 0 or -1. */
static int raise_end(struct operation *operation, const char *pending)
{
	PyObject *error;

	if (!done(operation)) {
		PyErr_SetString(operation->module->invalid_state, pending);
		return -1;
	}
	if (!operation->cancelled)
		return 0;
	error = cancelled_error(operation);
	if (error)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_XDECREF(error);
	return -1;
}

/* Of one that is done.  Returns a new reference, or NULL with an exception set. */
static PyObject *result_of(struct operation *operation)
{
	if (raise_end(operation, "Result is not set."))
		return NULL;
	if (!operation->error)
		return Py_NewRef(operation->result ? operation->result : Py_None);
	operation->unseen = false;
	/* each time anew, else it grows */
	(void)PyException_SetTraceback(operation->error, Py_None);
	PyErr_SetObject((PyObject *)Py_TYPE(operation->error), operation->error);
	return NULL;
}

static PyObject *operation_result(PyObject *object, PyObject *Py_UNUSED(args))
{
	return result_of((struct operation *)object);
}

static PyObject *operation_exception(PyObject *object, PyObject *Py_UNUSED(args))
{
	struct operation *operation = (struct operation *)object;

	if (raise_end(operation, "Exception is not set."))
		return NULL;
	operation->unseen = false;
	return Py_NewRef(operation->error ? operation->error : Py_None);
}

static PyObject *operation_done(PyObject *object, PyObject *Py_UNUSED(args))
{
	return PyBool_FromLong(done((struct operation *)object));
}

static PyObject *operation_cancelled(PyObject *object, PyObject *Py_UNUSED(args))
{
	return PyBool_FromLong(((struct operation *)object)->cancelled);
}

static PyObject *operation_get_loop(PyObject *object, PyObject *Py_UNUSED(args))
{
	return Py_NewRef(((struct operation *)object)->loop);
}

static PyObject *operation_make_cancelled_error(PyObject *object,
						PyObject *Py_UNUSED(args))
{
	return cancelled_error((struct operation *)object);
}

static PyObject *operation_cancel(PyObject *object, PyObject *const *args, Py_ssize_t n,
				  PyObject *keywords)
{
	static const struct parameters parameters = { { "msg" }, 1, 0 };
	struct operation *operation = (struct operation *)object;
	PyObject *room[ARGUMENTS_MAX];
	PyObject *const *values = arguments_sort(&parameters, args, n, keywords, room);
	PyObject *none;

	if (!values)
		return NULL;
	if (done(operation))
		Py_RETURN_FALSE;
	if (!operation->message) {
		operation->message = Py_NewRef(values[0] ? values[0] : Py_None);
		none = PyObject_CallMethod(operation->driver, "cancel", "O", object);
		if (!none)
			return NULL;
		Py_DECREF(none);
	}
	Py_RETURN_TRUE;
}

static PyObject *operation_add_done_callback(PyObject *object, PyObject *args,
					     PyObject *keywords)
{
	static char *names[] = { "fn", "context", NULL };
	struct operation *operation = (struct operation *)object;
	PyObject *function, *context = Py_None, *one;
	int err = -1;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$O:add_done_callback",
					 names, &function, &context))
		return NULL;
	context = context == Py_None
			  ? PyObject_CallNoArgs(operation->module->copy_context)
			  : Py_NewRef(context);
	if (!context)
		return NULL;
	if (done(operation)) {
		err = call_soon(operation, function, context);
	} else if (operation->callbacks || (operation->callbacks = PyList_New(0))) {
		one = PyTuple_Pack(2, function, context);
		err = one ? PyList_Append(operation->callbacks, one) : -1;
		Py_XDECREF(one);
	}
	Py_DECREF(context);
	return err ? NULL : Py_NewRef(Py_None);
}

static PyObject *operation_remove_done_callback(PyObject *object, PyObject *function)
{
	PyObject *callbacks = ((struct operation *)object)->callbacks;
	Py_ssize_t i = 0, removed = 0;

	Py_XINCREF(callbacks);
	while (callbacks && i < PyList_Size(callbacks)) {
		PyObject *one = Py_NewRef(PyList_GetItem(callbacks, i));
		int same = PyObject_RichCompareBool(PyTuple_GetItem(one, 0), function,
						    Py_EQ);

		Py_DECREF(one);
		if (same > 0)
			same = PyList_SetSlice(callbacks, i, i + 1, NULL) ? -1 : 1;
		if (same < 0) {
			Py_DECREF(callbacks);
			return NULL;
		}
		removed += same;
		i += !same;
	}
	Py_XDECREF(callbacks);
	return PyLong_FromSsize_t(removed);
}

/* ---- await ---- */

/* It is its own iterator: what that has to know is whether the operation has ended. */
static PySendResult operation_send(PyObject *object, PyObject *Py_UNUSED(value),
				   PyObject **ret_value)
{
	struct operation *operation = (struct operation *)object;

	if (done(operation)) {
		*ret_value = result_of(operation);
		return *ret_value ? PYGEN_RETURN : PYGEN_ERROR;
	}
	*ret_value = NULL;
	if (operation->blocking) {
		PyErr_SetString(PyExc_RuntimeError, "await wasn't used with future");
		return PYGEN_ERROR;
	}
	operation->blocking = true;
	*ret_value = Py_NewRef(object);
	return PYGEN_NEXT;
}

static PyObject *operation_next(PyObject *object)
{
	PyObject *value;
	PySendResult sent = operation_send(object, Py_None, &value);

	if (sent != PYGEN_RETURN)
		return value;
	PyErr_SetObject(PyExc_StopIteration, value);
	Py_DECREF(value);
	return NULL;
}

/* ---- the object ---- */

static int operation_traverse(PyObject *object, visitproc visit, void *arg)
{
	struct operation *operation = (struct operation *)object;

	Py_VISIT(Py_TYPE(object));
	Py_VISIT(operation->loop);
	Py_VISIT(operation->driver);
	Py_VISIT(operation->result);
	Py_VISIT(operation->error);
	Py_VISIT(operation->message);
	Py_VISIT(operation->callbacks);
	return 0;
}

/* What refers to others while it waits; the rest is needed to end. */
static int operation_clear(PyObject *object)
{
	Py_CLEAR(((struct operation *)object)->callbacks);
	return 0;
}

/* Nobody has asked for the error. */
static void report(struct operation *operation)
{
	PyObject *none = PyObject_CallMethod(operation->loop, "call_exception_handler",
					     "{sssO}", "message",
					     "Operation exception was never retrieved",
					     "exception", operation->error);

	if (!none)
		PyErr_WriteUnraisable(NULL);
	Py_XDECREF(none);
}

static void operation_free(PyObject *object)
{
	struct operation *operation = (struct operation *)object;

	if (operation->weak_references)
		PyObject_ClearWeakRefs(object);
	if (operation->unseen)
		report(operation);
	if (operation->cookies != &operation->cookie)
		PyMem_Free(operation->cookies);
	Py_XDECREF(operation->loop);
	Py_XDECREF(operation->driver);
	Py_XDECREF(operation->result);
	Py_XDECREF(operation->error);
	Py_XDECREF(operation->message);
	Py_XDECREF(operation->callbacks);
}

static void operation_del(PyObject *object)
{
	object_del(object, operation_free);
}

static PyMethodDef operation_methods[] = {
	{ "result", operation_result, METH_NOARGS,
	  "result($self, /)\n--\n\nThe result, or raise what it failed with, or "
	  "CancelledError." },
	{ "exception", operation_exception, METH_NOARGS,
	  "exception($self, /)\n--\n\nWhat it failed with, or None." },
	{ "done", operation_done, METH_NOARGS,
	  "done($self, /)\n--\n\nTrue once it has ended, and its memory is free." },
	{ "cancelled", operation_cancelled, METH_NOARGS,
	  "cancelled($self, /)\n--\n\nTrue if it has ended, and cancel() was called "
	  "before." },
	{ "cancel", METHOD(operation_cancel), METH_FASTCALL | METH_KEYWORDS,
	  "cancel($self, msg=None)\n--\n\nAsk for its end, which comes when its memory "
	  "is "
	  "free.  False: it has ended." },
	{ "get_loop", operation_get_loop, METH_NOARGS,
	  "get_loop($self, /)\n--\n\nThe event loop." },
	{ "add_done_callback", METHOD(operation_add_done_callback),
	  METH_VARARGS | METH_KEYWORDS,
	  "add_done_callback($self, fn, *, context=None)\n--\n\n"
	  "Let the loop call a function with it, when it has ended." },
	{ "remove_done_callback", operation_remove_done_callback, METH_O,
	  "remove_done_callback($self, fn, /)\n--\n\nEnd that.  Returns how often it "
	  "was "
	  "added." },
	{ "_make_cancelled_error", operation_make_cancelled_error, METH_NOARGS, NULL },
	{ "_end", operation_end, METH_VARARGS, NULL },
	{ 0 },
};

static PyMemberDef operation_members[] = {
	{ "__weaklistoffset__", T_PYSSIZET, offsetof(struct operation, weak_references),
	  READONLY, NULL },
	{ "_cancel_message", T_OBJECT, offsetof(struct operation, message), READONLY,
	  NULL },
	{ "_asyncio_future_blocking", T_BOOL, offsetof(struct operation, blocking), 0,
	  NULL },
	{ 0 },
};

static PyType_Slot operation_slots[] = {
	{ Py_tp_doc,
	  "What operations are awaited by: a future of asyncio.\n\n"
	  "cancel() asks for the end of the operations: the future ends with them." },
	{ Py_tp_dealloc, operation_del },
	{ Py_tp_traverse, operation_traverse },
	{ Py_tp_clear, operation_clear },
	{ Py_tp_methods, operation_methods },
	{ Py_tp_members, operation_members },
	{ Py_tp_iter, PyObject_SelfIter },
	{ Py_tp_iternext, operation_next },
	{ Py_am_await, PyObject_SelfIter },
	{ Py_am_send, operation_send },
	{ 0 },
};

PyType_Spec operation_spec = {
	.name = "rmem._rmem.Operation",
	.basicsize = sizeof(struct operation),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
		 Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = operation_slots,
};
