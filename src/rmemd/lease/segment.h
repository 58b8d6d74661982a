/* SPDX-License-Identifier: BSD-3-Clause */
/* A piece of a lease in one extent.  The extent is freed when neither the lease nor any key
 * refers to the segment any more, so memory is never reused under a living key.
 * Threads: [loop]. */
#ifndef RMEMD_LEASE_SEGMENT_H
#define RMEMD_LEASE_SEGMENT_H

#include <stdint.h>

#include "base/list.h"
#include "rmemd/lease/tenant.h"
#include "rmemd/pool/pools.h"

struct leases;

struct segment {
	struct leases *leases;
	struct tenant *tenant; /* charged for the extent; holds a reference */
	struct extent extent;
	uint64_t bytes; /* from its start, that the lease uses */
	uint64_t dirty; /* from its start, that may not read as zero */
	unsigned refs;  /* of its MRs, and one of the lease */
	struct list
		releasing; /* in leases->releasing, when the lease has given it up */
};

/* Wrap an extent, and charge the tenant for it.  The lease's reference is the caller's, to be
 * ended by segment_release().  -ENOMEM; then the extent is still the caller's. */
int segment_create(struct leases *leases, struct tenant *tenant, struct extent extent,
		   uint64_t bytes, struct segment **ret_segment);
/* The lease gives it up. */
void segment_release(struct segment *segment);
/* The last reference frees the extent. */
void segment_unref(struct segment *segment);

/* The number of bytes behind its end that can be used without scrubbing them elsewhere. */
uint64_t segment_slack(const struct segment *segment);
/* Use `bytes` more, at most segment_slack(); they read as zero. */
void segment_extend(struct segment *segment, uint64_t bytes);
/* Free the pages behind its end.  No key may reach there. */
void segment_shed(struct segment *segment);

#endif
