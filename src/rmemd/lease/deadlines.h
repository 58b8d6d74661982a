/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines in the order in which they are due: a binary heap of nodes that live in the caller's
 * structures.  Setting and clearing cost O(log n).  Threads: [loop]. */
#ifndef RMEMD_LEASE_DEADLINES_H
#define RMEMD_LEASE_DEADLINES_H

#include <stddef.h>
#include <stdint.h>

/* All zero: not set. */
struct deadline {
	size_t place; /* in the heap, from 1; 0: not set */
	uint64_t due_ms;
};

/* All zero: empty. */
struct deadlines {
	struct deadline **nodes; /* nodes[0] is due first */
	size_t n, room;
};

/* Does not free the nodes. */
void deadlines_destroy(struct deadlines *heap);

/* Reserve memory, so that setting `more` nodes cannot fail.  -ENOMEM */
int deadlines_reserve(struct deadlines *heap, size_t more);
/* Set a deadline, or move it.  For a node that is not set memory must be reserved. */
void deadlines_set(struct deadlines *heap, struct deadline *node, uint64_t due_ms);
/* No effect if it is not set. */
void deadlines_clear(struct deadlines *heap, struct deadline *node);
/* The deadline that is due first, or NULL. */
struct deadline *deadlines_first(const struct deadlines *heap);

#endif
