// SPDX-License-Identifier: BSD-3-Clause
#include "python/arguments.h"

static int place_of(PyObject *keyword, const struct parameters *parameters)
{
	for (int i = 0; i < parameters->n; i++)
		if (PyUnicode_CompareWithASCIIString(keyword, parameters->names[i]) ==
		    0)
			return i;
	PyErr_Format(PyExc_TypeError, "there is no parameter '%U'", keyword);
	return -1;
}

/* The values of the keywords, after n that have none. */
static int sort_keywords(const struct parameters *parameters, PyObject *const *args,
			 Py_ssize_t n, PyObject *keywords, PyObject **room)
{
	Py_ssize_t n_keywords = keywords ? PyTuple_Size(keywords) : 0;

	for (Py_ssize_t i = 0; i < n_keywords; i++) {
		PyObject *keyword = PyTuple_GetItem(keywords, i);
		int place = place_of(keyword, parameters);

		if (place < 0)
			return -1;
		if (room[place]) {
			PyErr_Format(PyExc_TypeError, "'%U' is given twice", keyword);
			return -1;
		}
		room[place] = args[n + i];
	}
	return 0;
}

PyObject **arguments_place(const struct parameters *parameters, PyObject *const *args,
			   Py_ssize_t n, PyObject *keywords, PyObject **room)
{
	if (n > parameters->n) {
		PyErr_Format(PyExc_TypeError,
			     "%zd arguments, where at most %d are taken", n,
			     parameters->n);
		return NULL;
	}
	for (int i = 0; i < parameters->n; i++)
		room[i] = i < n ? args[i] : NULL;
	if (sort_keywords(parameters, args, n, keywords, room))
		return NULL;
	for (int i = 0; i < parameters->required; i++)
		if (!room[i]) {
			PyErr_Format(PyExc_TypeError, "'%s' is missing",
				     parameters->names[i]);
			return NULL;
		}
	return room;
}

int arguments_index(PyObject *value, uint64_t *ret_value)
{
	PyObject *number = PyNumber_Index(value);

	if (!number)
		return -1;
	*ret_value = PyLong_AsUnsignedLongLong(number);
	Py_DECREF(number);
	return PyErr_Occurred() ? -1 : 0;
}

int arguments_to_u64(PyObject *value, void *to)
{
	return arguments_u64(value, to) == 0;
}

int arguments_to_u32(PyObject *value, void *to)
{
	uint64_t number;

	if (arguments_u64(value, &number))
		return 0;
	if (number > UINT32_MAX) {
		PyErr_Format(PyExc_OverflowError, "%R has more than 32 bits", value);
		return 0;
	}
	*(uint32_t *)to = (uint32_t)number;
	return 1;
}

const char **arguments_texts(PyObject *texts, unsigned *ret_n)
{
	Py_ssize_t n = PyTuple_Size(texts);
	const char **all = n < 0 ? NULL : PyMem_Calloc((size_t)n + 1, sizeof(*all));

	if (!all) {
		if (!PyErr_Occurred())
			(void)PyErr_NoMemory();
		return NULL;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		all[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(texts, i), NULL);
		if (!all[i]) {
			PyMem_Free(all);
			return NULL;
		}
	}
	*ret_n = (unsigned)n;
	return all;
}
