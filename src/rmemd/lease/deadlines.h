/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines in the order they come due: a binary heap of nodes that live in the
 * caller's structures.  Setting and clearing cost O(log n), looking at the next one
 * nothing. Threads: [loop]. */
#ifndef RMEMD_LEASE_DEADLINES_H
#define RMEMD_LEASE_DEADLINES_H

#include <stddef.h>
#include <stdint.h>

/* All zero: not set. */
struct deadline {
	size_t place; /* in the heap, from 1; 0: not set */
	uint64_t due_ms;
};

struct deadlines {
	struct deadline **nodes; /* nodes[0] is due first */
	size_t n, room;
};

void deadlines_init(struct deadlines *heap);
/* The nodes are the caller's. */
void deadlines_destroy(struct deadlines *heap);

/* Make room, so that a later set of one more node cannot fail.  -ENOMEM */
int deadlines_reserve(struct deadlines *heap, size_t more);
/* Set a deadline, or move it.  Needs room reserved for a node not yet set. */
void deadlines_set(struct deadlines *heap, struct deadline *node, uint64_t due_ms);
/* Not set: nothing. */
void deadlines_clear(struct deadlines *heap, struct deadline *node);
/* What comes due first, or NULL. */
struct deadline *deadlines_first(const struct deadlines *heap);

#endif
