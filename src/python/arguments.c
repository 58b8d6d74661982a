// SPDX-License-Identifier: BSD-3-Clause
#include "python/arguments.h"

static int place_of(PyObject *keyword, const char *const *names)
{
	for (int i = 0; names[i]; i++)
		if (PyUnicode_CompareWithASCIIString(keyword, names[i]) == 0)
			return i;
	PyErr_Format(PyExc_TypeError, "there is no parameter '%U'", keyword);
	return -1;
}

int arguments_sort(PyObject *const *args, Py_ssize_t n, PyObject *keywords,
		   const char *const *names, unsigned required, PyObject **ret_values)
{
	Py_ssize_t n_keywords = keywords ? PyTuple_Size(keywords) : 0;
	Py_ssize_t n_names = 0;

	while (names[n_names])
		ret_values[n_names++] = NULL;
	if (n > n_names) {
		PyErr_Format(PyExc_TypeError,
			     "%zd arguments, where at most %zd are taken", n, n_names);
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++)
		ret_values[i] = args[i];
	for (Py_ssize_t i = 0; i < n_keywords; i++) {
		PyObject *keyword = PyTuple_GetItem(keywords, i);
		int place = place_of(keyword, names);

		if (place < 0)
			return -1;
		if (ret_values[place]) {
			PyErr_Format(PyExc_TypeError, "'%U' is given twice", keyword);
			return -1;
		}
		ret_values[place] = args[n + i];
	}
	for (unsigned i = 0; i < required; i++)
		if (!ret_values[i]) {
			PyErr_Format(PyExc_TypeError, "'%s' is missing", names[i]);
			return -1;
		}
	return 0;
}

int arguments_u64(PyObject *value, uint64_t *ret_value)
{
	PyObject *number = value ? PyNumber_Index(value) : NULL;

	if (value && !number)
		return -1;
	*ret_value = number ? PyLong_AsUnsignedLongLong(number) : 0;
	Py_XDECREF(number);
	return PyErr_Occurred() ? -1 : 0;
}
