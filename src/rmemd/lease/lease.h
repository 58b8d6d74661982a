/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases: memory of the pools lent to a tenant until it is freed or its time is over.
 *
 * The table owns every lease.  A lease is made reachable for a session by an
 * attachment, whose exposures carry the keys.  Whatever ends a lease, the order is
 * always: keys dead, extents given back to their pools.  What waits for a fabric or for
 * memory ends in the waiter's done().
 *
 * Threads: [loop].  Functions return 0 or -errno with err_text(); never logs. */
#ifndef RMEMD_LEASE_LEASE_H
#define RMEMD_LEASE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/msg.h"

struct leases;

/* A lease for people and programs that look on. */
struct lease_status {
	uint64_t id;
	const char *name; /* "": ephemeral */
	const char *tenant;
	uint64_t owner; /* session it ends with; 0: named */
	uint64_t bytes; /* its exact length */
	uint64_t lent;	/* bytes of the pools it takes */
	unsigned segments;
	unsigned sessions; /* that have it attached */
	unsigned writers;  /* those of them that may write */
	uint64_t age_ms;
	uint64_t ttl_ms; /* left; 0: for ever */
	uint32_t generation;
	bool ready; /* false: being granted, waits for memory or keys */
};

/* Call each() for every lease in the order of their ids, until it returns non-zero, and
 * return that.  The strings are borrowed until each() returns; the table must not
 * change meanwhile. */
int leases_each(const struct leases *leases,
		int (*each)(const struct lease_status *status, void *arg), void *arg);

#endif
