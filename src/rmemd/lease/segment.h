/* SPDX-License-Identifier: BSD-3-Clause */
/* A piece of a lease in one extent.  The lease and each memory region hold a reference; the last
 * one frees the extent, so memory is never zeroed or reused under a live key.  Threads: [loop]. */
#ifndef RMEMD_LEASE_SEGMENT_H
#define RMEMD_LEASE_SEGMENT_H

#include <stdint.h>

#include "base/list.h"
#include "rmemd/pool/pools.h"

struct lease;

struct segment {
	struct lease *lease; /* outlives it; its tenant is charged for the extent */
	struct extent extent;
	uint64_t bytes;        /* those that the lease uses, from the start */
	uint64_t dirty;        /* bytes that may not read as zero, from the start */
	unsigned refs;         /* one of each MR, and one of the lease */
	struct list releasing; /* in leases->releasing, once released */
};

/* Make a segment of an extent, and charge the tenant for it.  segment_release() ends the
 * reference of the lease.  -ENOMEM; then the extent is still the caller's. */
int segment_create(struct lease *lease, struct extent extent, uint64_t bytes,
		   struct segment **ret_segment);
/* End the reference of the lease. */
void segment_release(struct segment *segment);
/* The last reference frees the extent, which a scrubber of the pool zeroes. */
void segment_unref(struct segment *segment);

/* The number of bytes behind the segment's end that need no scrubber before use. */
uint64_t segment_slack(const struct segment *segment);
/* Use `bytes` more, at most segment_slack(), after zeroing those that are dirty. */
void segment_extend(struct segment *segment, uint64_t bytes);
/* Free the pages behind the segment's end.  No key may reach there. */
void segment_shed(struct segment *segment);

#endif
