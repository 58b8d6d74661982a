/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/tree.h"

#include <stddef.h>

#include "base/map.h"

/* Where the tree has, or would have, a node with this number, below nodes of higher priority. */
static struct tree_node **place_of(struct tree *tree, uint64_t number,
				   uint64_t priority)
{
	struct tree_node **link = &tree->root;

	while (*link && (*link)->number != number && (*link)->priority >= priority)
		link = (*link)->number < number ? &(*link)->right : &(*link)->left;
	return link;
}

void tree_insert(struct tree *tree, struct tree_node *node, uint64_t number)
{
	uint64_t priority = map_hash_u64(number);
	struct tree_node **link = place_of(tree, number, priority);
	struct tree_node *rest = *link, **left = &node->left, **right = &node->right;

	node->number = number;
	node->priority = priority;
	*link = node;
	while (rest) {
		if (rest->number < number) {
			*left = rest;
			left = &rest->right;
			rest = rest->right;
		} else {
			*right = rest;
			right = &rest->left;
			rest = rest->left;
		}
	}
	*left = *right = NULL;
}

void tree_remove(struct tree *tree, const struct tree_node *node)
{
	struct tree_node **link = place_of(tree, node->number, 0);
	struct tree_node *left = node->left, *right = node->right;

	while (left && right) {
		if (left->priority > right->priority) {
			*link = left;
			link = &left->right;
			left = left->right;
		} else {
			*link = right;
			link = &right->left;
			right = right->left;
		}
	}
	*link = left ? left : right;
}

struct tree_node *tree_above(const struct tree *tree, uint64_t number)
{
	struct tree_node *node = tree->root, *best = NULL;

	while (node) {
		if (node->number > number) {
			best = node;
			node = node->left;
		} else {
			node = node->right;
		}
	}
	return best;
}
