/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of methods that are called often. */
#ifndef PYTHON_ARGUMENTS_H
#define PYTHON_ARGUMENTS_H

#include "python/module.h"

#define ARGUMENTS_MAX 4

struct parameters {
	const char *names[ARGUMENTS_MAX];
	int n;
	int required; /* the first ones, which must be given */
};

/* Place the arguments of METH_FASTCALL | METH_KEYWORDS by the names of the parameters: in room[],
 * with NULL for those that are not given.  Returns room, or NULL with an exception set. */
PyObject **arguments_place(const struct parameters *parameters, PyObject *const *args,
			   Py_ssize_t n, PyObject *keywords, PyObject **room);

/* The same, but `args` itself if all are there without a name. */
static inline PyObject *const *arguments_sort(const struct parameters *parameters,
					      PyObject *const *args, Py_ssize_t n,
					      PyObject *keywords, PyObject **room)
{
	if (n == parameters->n && !keywords)
		return args;
	return arguments_place(parameters, args, n, keywords, room);
}

/* An integer of 64 bits of what has __index__. */
int arguments_index(PyObject *value, uint64_t *ret_value);

/* The same, of int too; NULL: 0.  Returns 0, or -1 with an exception set. */
static inline int arguments_u64(PyObject *value, uint64_t *ret_value)
{
	if (value && Py_TYPE(value) != &PyLong_Type)
		return arguments_index(value, ret_value);
	*ret_value = value ? PyLong_AsUnsignedLongLong(value) : 0;
	return *ret_value == UINT64_MAX && PyErr_Occurred() ? -1 : 0;
}

/* The same for O& of PyArg_ParseTuple(), where K and I would cut what is too large: *to has 64 or
 * 32 bits.  Return 1, or 0 with an exception set. */
int arguments_to_u64(PyObject *value, void *to);
int arguments_to_u32(PyObject *value, void *to);

/* The strings of a tuple, which lives as long as the result is used; PyMem_Free() it.  NULL with an
 * exception set. */
const char **arguments_texts(PyObject *texts, unsigned *ret_n);

#endif
