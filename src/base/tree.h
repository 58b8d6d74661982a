/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes in the order of their numbers: a treap, whose nodes live in the caller's structures.  All
 * functions cost O(log n).  Not thread-safe. */
#ifndef BASE_TREE_H
#define BASE_TREE_H

#include <stdint.h>

struct tree_node {
	uint64_t number, priority;
	struct tree_node *left, *right;
};

/* All zero: empty. */
struct tree {
	struct tree_node *root;
};

/* No other node may have the number. */
void tree_insert(struct tree *tree, struct tree_node *node, uint64_t number);
void tree_remove(struct tree *tree, const struct tree_node *node);
/* The node with the least number above this one, or NULL. */
struct tree_node *tree_above(const struct tree *tree, uint64_t number);

#endif
