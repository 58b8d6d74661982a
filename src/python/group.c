// SPDX-License-Identifier: BSD-3-Clause
#include "python/group.h"

#include "python/failure.h"

static int key_of(PyObject *key, struct rmem_cache_op *op)
{
	Py_ssize_t bytes;
	char *data;

	if (PyUnicode_Check(key))
		op->key = PyUnicode_AsUTF8AndSize(key, &bytes);
	else
		op->key = PyBytes_AsStringAndSize(key, &data, &bytes) ? NULL : data;
	if (!op->key)
		return -1;
	if (bytes < 1 || bytes > RMEM_CACHE_KEY_MAX) {
		PyErr_Format(PyExc_ValueError,
			     "a key of %zd bytes, of which %d are the most", bytes,
			     RMEM_CACHE_KEY_MAX);
		return -1;
	}
	op->key_bytes = (uint8_t)bytes;
	return 0;
}

static int take_keys(struct group *group, enum rmem_cache_opcode opcode,
		     uint64_t ttl_ms)
{
	for (unsigned i = 0; i < group->n; i++) {
		struct rmem_cache_op *op = &group->ops[i];

		if (key_of(PyTuple_GetItem(group->keys, i), op))
			return -1;
		op->opcode = (uint16_t)opcode;
		op->ttl_ms = opcode == RMEM_CACHE_PUT ? ttl_ms : 0;
	}
	return 0;
}

static int take_memories(struct group *group, bool writable, PyObject *memories)
{
	if (PySequence_Size(memories) != group->n) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_ValueError,
					"as many memories as keys are needed");
		return -1;
	}
	group->memories = PyMem_Calloc(group->n + 1, sizeof(*group->memories));
	if (!group->memories) {
		(void)PyErr_NoMemory();
		return -1;
	}
	for (unsigned i = 0; i < group->n; i++) {
		PyObject *memory = PySequence_GetItem(memories, i);
		int err = memory ? memory_take(memory, writable, &group->memories[i])
				 : -1;

		Py_XDECREF(memory);
		if (err)
			return -1;
		group->ops[i].value = group->memories[i].addr;
		group->ops[i].bytes = group->memories[i].bytes;
	}
	return 0;
}

static PyObject *results_new(unsigned n)
{
	PyObject *results = PyList_New(n);

	for (unsigned i = 0; results && i < n; i++)
		(void)PyList_SetItem(results, i, Py_NewRef(Py_None));
	return results;
}

struct group *group_new(enum rmem_cache_opcode opcode, PyObject *keys,
			PyObject *memories, uint64_t ttl_ms, PyObject *tag)
{
	bool moves = opcode == RMEM_CACHE_GET || opcode == RMEM_CACHE_PUT;
	struct group *group = PyMem_Calloc(1, sizeof(*group));

	if (!group)
		return (struct group *)PyErr_NoMemory();
	group->tag = Py_XNewRef(tag);
	group->keys = PySequence_Tuple(keys);
	if (!group->keys)
		goto free_group;
	if (PyTuple_Size(group->keys) > INT32_MAX / 2) {
		PyErr_SetString(PyExc_ValueError, "too many keys");
		goto free_group;
	}
	group->n = group->left = (unsigned)PyTuple_Size(group->keys);
	group->results = results_new(group->n);
	group->ops = PyMem_Calloc(group->n + 1, sizeof(*group->ops));
	if (!group->results || !group->ops) {
		(void)PyErr_NoMemory();
		goto free_group;
	}
	if (take_keys(group, opcode, ttl_ms) ||
	    (moves && take_memories(group, opcode == RMEM_CACHE_GET, memories)))
		goto free_group;
	return group;

free_group:
	group_free(group);
	return NULL;
}

void group_free(struct group *group)
{
	for (unsigned i = 0; group->memories && i < group->n; i++)
		memory_release(&group->memories[i]);
	PyMem_Free(group->memories);
	PyMem_Free(group->ops);
	Py_XDECREF(group->tag);
	Py_XDECREF(group->results);
	Py_XDECREF(group->keys);
	PyMem_Free(group);
}

int group_traverse(const struct group *group, visitproc visit, void *arg)
{
	for (unsigned i = 0; group->memories && i < group->n; i++) {
		int stop = memory_traverse(&group->memories[i], visit, arg);

		if (stop)
			return stop;
	}
	Py_VISIT(group->tag);
	Py_VISIT(group->results);
	return 0;
}

void group_place(struct group *group, uint32_t index)
{
	group->index = index;
	for (unsigned i = 0; i < group->n; i++)
		group->ops[i].cookie = (uint64_t)index << 32 | i;
}

/* Takes the value over.  In place of one that could not be made is why: a result that is lost is
 * not taken for that of a key that is missing. */
static int put(struct group *group, unsigned i, PyObject *value)
{
	PyObject *type, *error, *traceback;

	group->left--;
	if (value)
		return PyList_SetItem(group->results, i, value);
	PyErr_Fetch(&type, &error, &traceback);
	PyErr_NormalizeException(&type, &error, &traceback);
	(void)PyList_SetItem(group->results, i, Py_XNewRef(error));
	PyErr_Restore(type, error, traceback);
	return -1;
}

int group_error(struct group *group, const struct module *module, unsigned i,
		int status, const char *text)
{
	return put(group, i, failure_new(module, status, text, RMEM_REASON_NONE));
}

int group_result(struct group *group, const struct module *module,
		 const rmem_cache *cache, const struct rmem_cache_result *result)
{
	unsigned i = (uint32_t)result->cookie;
	PyObject *value;

	switch (result->outcome) {
	case RMEM_CACHE_HIT:
		value = PyLong_FromUnsignedLongLong(result->bytes);
		break;
	case RMEM_CACHE_STORED:
	case RMEM_CACHE_DELETED:
		value = Py_NewRef(Py_True);
		break;
	case RMEM_CACHE_MISSING:
		value = Py_NewRef(result->opcode == RMEM_CACHE_DELETE ? Py_False
								      : Py_None);
		break;
	default:
		return group_error(group, module, i, result->status,
				   rmem_cache_result_error(cache, result));
	}
	return put(group, i, value);
}
