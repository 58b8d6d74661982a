/* SPDX-License-Identifier: BSD-3-Clause */
/* Into what stripes a length is cut that is to lie on several nodes in turn.
 *
 * Every stripe is a segment, which costs a registration with each device for each session,
 * and a lease has only so many; short ones let more transfers meet several nodes at a time.
 * So there are as many as a quarter of the segments that may be had, which leaves room to
 * grow, but none is shorter than a huge page, unless there were no such for every node: then
 * each has one, as long as the others.  Long ones are made of whole huge pages.
 * Threads: [any]; pure functions. */
#ifndef RMEMD_POOL_STRIPES_H
#define RMEMD_POOL_STRIPES_H

#include <stdint.h>

struct stripes {
	unsigned n; /* less than 2: it is not worth it, or there is no room */
	/* What they are made of, the first `longer` of one more than the others; the last one
	 * ends where the length does. */
	uint64_t unit_bytes, bytes;
	uint64_t units;
	unsigned longer;
};

/* As equal as can be, for each node the same number of them.
 *   bytes        > 0
 *   align_bytes  a power of two: all but the last are a multiple of it
 *   max          how many segments there may be */
void stripes_plan(uint64_t bytes, uint64_t align_bytes, unsigned n_nodes, unsigned max,
		  struct stripes *ret_stripes);
/* The length of one of them. */
uint64_t stripes_bytes(const struct stripes *stripes, unsigned i);

#endif
