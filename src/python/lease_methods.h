/* SPDX-License-Identifier: BSD-3-Clause */
/* The type Lease. */
#ifndef PYTHON_LEASE_METHODS_H
#define PYTHON_LEASE_METHODS_H

#include "python/module.h"

extern PyType_Spec lease_spec;

#endif
