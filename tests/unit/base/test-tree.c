/* SPDX-License-Identifier: BSD-3-Clause */
/* Trees of nodes in the order of two numbers. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/tree.h"
#include "unit/unit.h"

#define N 500

static struct tree_node nodes[N];
static bool inside[N];

/* After random changes the nodes come in order, in both directions. */
START_TEST(nodes__come_in_order)
{
	struct tree tree;
	struct tree_node *node, *last = NULL;
	unsigned set = 0, out = 0;

	srand((unsigned)_i);
	memset(&tree, 0, sizeof(tree));
	memset(inside, 0, sizeof(inside));
	ck_assert_ptr_null(tree_above(&tree, 0, 0));
	ck_assert_ptr_null(tree_below(&tree, UINT64_MAX, UINT64_MAX));
	for (unsigned i = 0; i < 4 * N; i++) {
		unsigned k = (unsigned)rand() % N;

		if (inside[k])
			tree_remove(&tree, &nodes[k]);
		inside[k] = rand() % 3 != 0;
		if (inside[k])
			tree_insert(&tree, &nodes[k], (uint64_t)(rand() % 100), k + 1);
	}
	for (unsigned i = 0; i < N; i++)
		set += inside[i];
	for (node = tree_above(&tree, 0, 0); node;
	     node = tree_above(&tree, node->major, node->minor), out++) {
		ck_assert_ptr_eq(tree_below(&tree, node->major, node->minor), last);
		ck_assert(!last || last->major < node->major ||
			  (last->major == node->major && last->minor < node->minor));
		last = node;
	}
	ck_assert_ptr_eq(tree_below(&tree, UINT64_MAX, UINT64_MAX), last);
	ck_assert_uint_eq(out, set);
	ck_assert_uint_gt(out, 0);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("tree", NULL, NULL);

	tcase_add_loop_test(tc, nodes__come_in_order, 0, 20);
	return unit_main();
}
