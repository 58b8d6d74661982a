/* SPDX-License-Identifier: BSD-3-Clause */
/* Checked arithmetic at the borders, compared with numbers of 128 bits. */
#include "base/checked.h"
#include "unit/borders.h"
#include "unit/unit.h"

__extension__ typedef unsigned __int128 wide;

#define UNTOUCHED 77

static const struct borders borders;

/* Check would take too long for millions of assertions. */
#define REQUIRE(condition)                                                          \
	do {                                                                        \
		if (!(condition))                                                   \
			ck_abort_msg("%s is false for %llu and %llu", #condition,   \
				     (unsigned long long)a, (unsigned long long)b); \
	} while (0)

static void check_pair(uint64_t a, uint64_t b)
{
	uint64_t sum = UNTOUCHED;
	bool fits = checked_add(a, b, &sum);

	REQUIRE(fits == ((wide)a + b <= UINT64_MAX));
	REQUIRE(sum == (fits ? (wide)a + b : UNTOUCHED));
	fits = checked_mul(a, b, &sum);
	REQUIRE(fits == ((wide)a * b <= UINT64_MAX));
	REQUIRE(!fits || sum == (wide)a * b);
	REQUIRE(json_number(a) >= 0);
	REQUIRE((uint64_t)json_number(a) == (a <= INT64_MAX ? a : INT64_MAX));
	REQUIRE(range_inside(a, b, 0) == (b <= a));
	REQUIRE(range_inside(1 << 20, a, b) == ((wide)a + b <= 1 << 20));
	REQUIRE(range_inside(UINT64_MAX, a, b) == ((wide)a + b <= UINT64_MAX));
}

static void check_align(uint64_t a, uint64_t b)
{
	wide up = ((wide)a + b - 1) / b * b;
	uint64_t value = UNTOUCHED;
	bool fits = checked_align_up(a, b, &value);

	REQUIRE(fits == (up <= UINT64_MAX));
	REQUIRE(value == (fits ? up : UNTOUCHED));
	REQUIRE(align_gap(a, b) == up - a);
}

START_TEST(results__are_right_or_refused)
{
	for (unsigned i = 0; i < borders_count(&borders); i++) {
		for (unsigned k = 0; k < borders_count(&borders); k++)
			check_pair(border_at(&borders, i), border_at(&borders, k));
		for (unsigned k = 0; k < BORDERS_BITS; k++)
			check_align(border_at(&borders, i), UINT64_C(1) << k);
	}
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("checked", NULL, NULL);

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, results__are_right_or_refused);
	return unit_main();
}
