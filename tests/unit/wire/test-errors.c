/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers of errors. */
#include <stdlib.h>

#include "unit/unit.h"
#include "wire/errors.h"

#define ROW(name, number, own, shown, text) { number, own, shown },
static const struct {
	unsigned number;
	int own, shown;
} rows[] = { WIRE_CODES(ROW) };
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

#define GROUP(hundreds, shown, text) { hundreds, shown },
static const struct {
	unsigned hundreds;
	int shown;
} groups[] = { WIRE_CODE_GROUPS(GROUP) };
#define N_GROUPS (sizeof(groups) / sizeof(groups[0]))

START_TEST(code__is_that_of_an_errno)
{
	ck_assert_uint_eq(wire_code_of(-rows[_i].own), rows[_i].number);
	ck_assert_int_eq(wire_code_errno(rows[_i].number), -rows[_i].shown);
}
END_TEST

START_TEST(codes__rise_and_are_in_groups)
{
	unsigned last = 0, k = 0;

	for (size_t i = 0; i < N_ROWS; i++) {
		ck_assert_uint_gt(rows[i].number, last);
		last = rows[i].number;
		while (k < N_GROUPS && groups[k].hundreds < last / 100)
			k++;
		ck_assert_uint_lt(k, N_GROUPS);
		ck_assert_uint_eq(groups[k].hundreds, last / 100);
	}
}
END_TEST

START_TEST(code__that_is_unknown_is_that_of_its_group)
{
	const unsigned first = groups[_i].hundreds * 100;

	ck_assert_int_eq(wire_code_errno(first + 99), -groups[_i].shown);
	ck_assert_int_eq(wire_code_errno(first + 98), -groups[_i].shown);
}
END_TEST

START_TEST(code__of_no_group_is_a_failure)
{
	static const uint32_t none[] = { 0, 99, 100 * (N_GROUPS + 1), 4096,
					 UINT32_MAX };

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		ck_assert_int_eq(wire_code_errno(none[i]), -EIO);
}
END_TEST

START_TEST(errno__without_a_code_is_a_failure)
{
	ck_assert_uint_eq(wire_code_of(0), WIRE_CODE_none);
	ck_assert_uint_eq(wire_code_of(-EFAULT), WIRE_CODE_failed);
	ck_assert_uint_eq(wire_code_of(-4095), WIRE_CODE_failed);
	ck_assert_uint_eq(wire_code_of(-ENETUNREACH), WIRE_CODE_unreachable);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("errors", NULL, NULL);

	tcase_add_loop_test(tc, code__is_that_of_an_errno, 0, (int)N_ROWS);
	tcase_add_test(tc, codes__rise_and_are_in_groups);
	tcase_add_loop_test(tc, code__that_is_unknown_is_that_of_its_group, 0,
			    (int)N_GROUPS);
	tcase_add_test(tc, code__of_no_group_is_a_failure);
	tcase_add_test(tc, errno__without_a_code_is_a_failure);
	return unit_main();
}
