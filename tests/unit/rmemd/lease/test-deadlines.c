/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "rmemd/lease/deadlines.h"
#include "unit/unit.h"

#define N 500

static struct expiry nodes[N];

/* Set, move and clear at random; what is left comes out in order. */
START_TEST(expiries__come_due_in_order)
{
	struct expiries heap;
	uint64_t last_ms = 0;
	size_t set = 0, out = 0;
	struct expiry *first;

	srand((unsigned)_i);
	expiries_init(&heap);
	ck_assert_ptr_null(expiries_first(&heap));
	for (unsigned i = 0; i < N; i++)
		nodes[i] = (struct expiry){ 0 };
	for (unsigned i = 0; i < 4 * N; i++) {
		struct expiry *node = &nodes[rand() % N];

		if (rand() % 3 == 0) {
			expiries_clear(&heap, node);
			ck_assert_uint_eq(node->place, 0);
			continue;
		}
		ck_assert_int_eq(expiries_reserve(&heap, 1), 0);
		expiries_set(&heap, node, (uint64_t)(rand() % 1000));
	}
	for (unsigned i = 0; i < N; i++)
		set += nodes[i].place != 0;
	while ((first = expiries_first(&heap))) {
		ck_assert_uint_ge(first->due_ms, last_ms);
		last_ms = first->due_ms;
		expiries_clear(&heap, first);
		out++;
	}
	ck_assert_uint_eq(out, set);
	ck_assert_uint_gt(out, 0);
	expiries_destroy(&heap);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("expiry");
	TCase *tc = tcase_create("expiry");

	tcase_add_loop_test(tc, expiries__come_due_in_order, 0, 20);
	suite_add_tcase(suite, tc);
	return unit_main(suite);
}
