/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes in the order of two numbers each: a treap, whose nodes live in the caller's structures.
 * All functions cost O(log n).  Not thread-safe. */
#ifndef BASE_TREE_H
#define BASE_TREE_H

#include <stdint.h>

struct tree_node {
	uint64_t major, minor; /* the minor numbers order nodes with one major number */
	uint64_t priority;
	struct tree_node *left, *right;
};

/* All zero: empty. */
struct tree {
	struct tree_node *root;
	uint64_t random; /* of the next priority */
};

/* No other node may have both numbers. */
void tree_insert(struct tree *tree, struct tree_node *node, uint64_t major,
		 uint64_t minor);
void tree_remove(struct tree *tree, const struct tree_node *node);
/* The first node above these numbers, or NULL. */
struct tree_node *tree_above(const struct tree *tree, uint64_t major, uint64_t minor);
/* The last node below these numbers, or NULL. */
struct tree_node *tree_below(const struct tree *tree, uint64_t major, uint64_t minor);

#endif
