/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a lease has ended.  [any] */
#ifndef LIBRMEM_LEASE_LEASE_REASON_H
#define LIBRMEM_LEASE_LEASE_REASON_H

#include <rmem/rmem.h>

/* The reason in an event of the server; later servers may have others. */
enum rmem_reason lease_reason_from_wire(unsigned reason);

/* Why a lease that has ended, perhaps with its session, can not be used; static. */
const char *lease_ended_text(const struct rmem_lease *lease);

#endif
