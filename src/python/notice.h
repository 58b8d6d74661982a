/* SPDX-License-Identifier: BSD-3-Clause */
/* Notices of leases: Session.notified(). */
#ifndef PYTHON_NOTICE_H
#define PYTHON_NOTICE_H

#include "python/module.h"

PyObject *notice_take(PyObject *session, PyObject *args, PyObject *keywords);
PyObject *notice_fileno(PyObject *session, PyObject *);

#endif
