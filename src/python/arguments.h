/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of methods that are called often. */
#ifndef PYTHON_ARGUMENTS_H
#define PYTHON_ARGUMENTS_H

#include "python/module.h"

#define ARGUMENTS_MAX 4

/* Sort the arguments of METH_FASTCALL | METH_KEYWORDS by the names of the parameters, of which the
 * first `required` must be given; ret_values[] has NULL for those that are not.  Returns 0, or -1
 * with an exception set. */
int arguments_sort(PyObject *const *args, Py_ssize_t n, PyObject *keywords,
		   const char *const *names, unsigned required, PyObject **ret_values);

/* An integer of 64 bits, of int or what has __index__; NULL: 0.  Returns 0, or -1 with an exception
 * set. */
int arguments_u64(PyObject *value, uint64_t *ret_value);

#endif
