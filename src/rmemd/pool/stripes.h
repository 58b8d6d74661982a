/* SPDX-License-Identifier: BSD-3-Clause */
/* How a length is cut into stripes that lie on several nodes in turn.
 *
 * Every stripe is a segment, which each device has to register for each session, and the number of
 * segments of a lease is limited; but with short stripes more transfers use several nodes at a
 * time.  So a quarter of the possible segments is used, which leaves some for growth.  No stripe is
 * shorter than a huge page, unless a node would have none: then each node has one stripe of equal
 * length.  Long stripes consist of whole huge pages.  Threads: [any]; pure functions. */
#ifndef RMEMD_POOL_STRIPES_H
#define RMEMD_POOL_STRIPES_H

#include <stdint.h>

struct stripes {
	unsigned n; /* less than 2: stripes are useless or impossible */
	/* Each stripe has `units` units, the first `longer` stripes have one more; the last stripe
	 * ends with the length. */
	uint64_t unit_bytes, bytes;
	uint64_t units;
	unsigned longer;
};

/* As equal as possible, the same number for each node.
 *   bytes        > 0
 *   align_bytes  a power of two: every stripe but the last is a multiple of it
 *   max          limit of segments */
void stripes_plan(uint64_t bytes, uint64_t align_bytes, unsigned n_nodes, unsigned max,
		  struct stripes *ret_stripes);
/* The length of stripe i. */
uint64_t stripes_bytes(const struct stripes *stripes, unsigned i);

#endif
