/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections counted by the address that they come from. */
#include "fabric/crowd.h"
#include "unit/unit.h"

START_TEST(crowd__counts_those_of_one_address)
{
	static const struct {
		struct fabric_address address;
		unsigned n; /* of its crowd then */
	} rows[] = {
		{ { .family = 4, .bytes = { 10, 0, 0, 1 }, .port = 1 }, 1 },
		{ { .family = 4, .bytes = { 10, 0, 0, 1 }, .port = 2 }, 2 },
		{ { .family = 4, .bytes = { 10, 0, 0, 2 } }, 1 },
		{ { .family = 6, .bytes = { 10, 0, 0, 1, 0, 0, 0, 1, 1 } }, 1 },
		{ { .family = 6, .bytes = { 10, 0, 0, 1, 0, 0, 0, 1, 2 } }, 2 },
		{ { .family = 6, .bytes = { 10, 0, 0, 1, 0, 0, 0, 2, 1 } }, 1 },
		{ { .family = 0 }, 1 },
	};
	struct crowd *crowds[sizeof(rows) / sizeof(rows[0])];
	struct list list = LIST_INIT(list);

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		crowds[i] = crowd_join(&list, &rows[i].address, sizeof(struct crowd));
		ck_assert_ptr_nonnull(crowds[i]);
		ck_assert_uint_eq(crowds[i]->n, rows[i].n);
	}
	ck_assert_ptr_eq(crowds[0], crowds[1]);
	crowd_leave(crowds[0]);
	ck_assert_uint_eq(crowds[1]->n, 1);
	for (unsigned i = 1; i < sizeof(rows) / sizeof(rows[0]); i++)
		crowd_leave(crowds[i]);
	crowd_leave(NULL);
	ck_assert(list_empty(&list));
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("crowd", NULL, NULL);

	tcase_add_test(tcase, crowd__counts_those_of_one_address);
	return unit_main();
}
