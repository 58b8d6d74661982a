/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/tree.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/random.h"

static bool node_is_below(const struct tree_node *node, uint64_t major, uint64_t minor)
{
	return node->major != major ? node->major < major : node->minor < minor;
}

void tree_insert(struct tree *tree, struct tree_node *node, uint64_t major,
		 uint64_t minor)
{
	struct tree_node **link = &tree->root, *rest;
	struct tree_node **left = &node->left, **right = &node->right;

	/* from a random start, so that no client can make the treap degenerate */
	if (!tree->random)
		tree->random = random_u64();
	node->major = major;
	node->minor = minor;
	node->priority = random_next(&tree->random);
	while (*link && (*link)->priority >= node->priority)
		link = node_is_below(*link, major, minor) ? &(*link)->right
							  : &(*link)->left;
	rest = *link;
	*link = node;
	while (rest) {
		if (node_is_below(rest, major, minor)) {
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
	struct tree_node *left = node->left, *right = node->right;
	struct tree_node **link = &tree->root;

	while (*link != node)
		link = node_is_below(*link, node->major, node->minor) ? &(*link)->right
								      : &(*link)->left;
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

struct tree_node *tree_above(const struct tree *tree, uint64_t major, uint64_t minor)
{
	struct tree_node *node = tree->root, *best = NULL;

	while (node) {
		bool above = node->major != major ? node->major > major
						  : node->minor > minor;

		if (above)
			best = node;
		node = above ? node->left : node->right;
	}
	return best;
}

struct tree_node *tree_below(const struct tree *tree, uint64_t major, uint64_t minor)
{
	struct tree_node *node = tree->root, *best = NULL;

	while (node) {
		bool below = node_is_below(node, major, minor);

		if (below)
			best = node;
		node = below ? node->right : node->left;
	}
	return best;
}
