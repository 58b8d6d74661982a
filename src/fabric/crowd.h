/* SPDX-License-Identifier: BSD-3-Clause */
/* The connections that come from one address; of IPv6 its first half counts, which is usually all
 * of one host.  Who has shown nothing yet is known by that alone.  Not thread-safe. */
#ifndef FABRIC_CROWD_H
#define FABRIC_CROWD_H

#include <stddef.h>

#include "base/list.h"
#include "fabric/address.h"

struct crowd {
	struct list link; /* in the list of those that have members */
	struct fabric_address address;
	unsigned n; /* its connections */
};

/* Count one more connection.  The crowd of its first one is made, of `bytes`: it may be at the
 * start of a larger structure, the rest of which is zero.  NULL: no memory */
struct crowd *crowd_join(struct list *crowds, const struct fabric_address *address,
			 size_t bytes);
/* The last one frees the crowd.  NULL: no effect. */
void crowd_leave(struct crowd *crowd);

#endif
