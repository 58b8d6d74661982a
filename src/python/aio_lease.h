/* SPDX-License-Identifier: BSD-3-Clause */
/* AioLease: what rmem.aio.Lease is derived from, the calls that are made often. */
#ifndef PYTHON_AIO_LEASE_H
#define PYTHON_AIO_LEASE_H

#include "python/module.h"

extern PyType_Spec aio_lease_spec;

#endif
