/* SPDX-License-Identifier: BSD-3-Clause */
/* The heap of deadlines. */
#include <stdlib.h>
#include <string.h>

#include "rmemd/lease/deadlines.h"
#include "unit/unit.h"

#define N 500

static struct deadline nodes[N];

/* After random changes the deadlines come out in order. */
START_TEST(deadlines__come_in_order)
{
	struct deadlines heap;
	uint64_t last_ms = 0;
	size_t set = 0, out = 0;
	struct deadline *first;

	srand((unsigned)_i);
	memset(&heap, 0, sizeof(heap));
	ck_assert_ptr_null(deadlines_first(&heap));
	for (unsigned i = 0; i < N; i++)
		nodes[i] = (struct deadline){ 0 };
	for (unsigned i = 0; i < 4 * N; i++) {
		struct deadline *node = &nodes[rand() % N];

		if (rand() % 3 == 0) {
			deadlines_clear(&heap, node);
			ck_assert_uint_eq(node->place, 0);
			continue;
		}
		ck_assert_int_eq(deadlines_reserve(&heap, 1), 0);
		deadlines_set(&heap, node, (uint64_t)(rand() % 1000));
	}
	for (unsigned i = 0; i < N; i++)
		set += nodes[i].place != 0;
	while ((first = deadlines_first(&heap))) {
		ck_assert_uint_ge(first->due_ms, last_ms);
		last_ms = first->due_ms;
		deadlines_clear(&heap, first);
		out++;
	}
	ck_assert_uint_eq(out, set);
	ck_assert_uint_gt(out, 0);
	deadlines_destroy(&heap);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("deadlines", NULL, NULL);

	tcase_add_loop_test(tc, deadlines__come_in_order, 0, 20);
	return unit_main();
}
