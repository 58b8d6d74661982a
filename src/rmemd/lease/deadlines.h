/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines in the order they come due: a binary heap of nodes that live in the
 * caller's structures.  Setting and clearing cost O(log n), looking at the next one
 * nothing. Threads: [loop]. */
#ifndef RMEMD_LEASE_EXPIRY_H
#define RMEMD_LEASE_EXPIRY_H

#include <stddef.h>
#include <stdint.h>

/* All zero: not set. */
struct expiry {
	size_t place; /* in the heap, from 1; 0: not set */
	uint64_t due_ms;
};

struct expiries {
	struct expiry **nodes; /* nodes[0] is due first */
	size_t n, room;
};

void expiries_init(struct expiries *heap);
/* The nodes are the caller's. */
void expiries_destroy(struct expiries *heap);

/* Make room, so that a later set of one more node cannot fail.  -ENOMEM */
int expiries_reserve(struct expiries *heap, size_t more);
/* Set a deadline, or move it.  Needs room reserved for a node not yet set. */
void expiries_set(struct expiries *heap, struct expiry *node, uint64_t due_ms);
/* Not set: nothing. */
void expiries_clear(struct expiries *heap, struct expiry *node);
/* What comes due first, or NULL. */
struct expiry *expiries_first(const struct expiries *heap);

#endif
