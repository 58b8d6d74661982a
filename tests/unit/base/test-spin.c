/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking again before sleeping. */
#include "base/clock.h"
#include "base/spin.h"
#include "unit/unit.h"

/* A look takes step_ns. */
static uint64_t now_ns, step_ns;

static uint64_t clock_step(void)
{
	return now_ns += step_ns;
}

static void setup(void)
{
	now_ns = 1;
	step_ns = 500;
	clock_set_source(clock_step);
}

static void teardown(void)
{
	clock_set_source(NULL);
}

/* A wait in which nothing is found; returns the number of looks. */
static unsigned wait_in_vain(struct spin *spin)
{
	unsigned looks = 0;

	if (!spin_begin(spin))
		return 0;
	while (spin_more(spin))
		looks++;
	spin_end(spin, false);
	return looks;
}

START_TEST(spin__is_short)
{
	struct spin spin = { 0 };
	uint64_t begin_ns = now_ns;

	ck_assert_uint_gt(wait_in_vain(&spin), 10);
	ck_assert_uint_ge(now_ns - begin_ns, 50000);
	ck_assert_uint_le(now_ns - begin_ns, 55000);
}
END_TEST

/* On a clock that stands still, too. */
START_TEST(spin__ends)
{
	struct spin spin = { 0 };

	step_ns = 0;
	ck_assert_uint_gt(wait_in_vain(&spin), 0);
}
END_TEST

START_TEST(spin__ends_when_others_have_the_core)
{
	struct spin spin = { 0 };

	step_ns = 20000;
	ck_assert_uint_eq(wait_in_vain(&spin), 0);
}
END_TEST

/* A thread whose waits are long hardly ever looks, until a look helps again. */
START_TEST(spin__is_rare_where_it_fails)
{
	struct spin spin = { 0 };
	unsigned looked = 0;

	for (unsigned i = 0; i < 1000; i++)
		looked += wait_in_vain(&spin) > 0;
	ck_assert_uint_ge(looked, 1000 / 65);
	ck_assert_uint_le(looked, 1000 / 64 + 7);
	while (!spin_begin(&spin))
		continue;
	spin_end(&spin, true);
	ck_assert(spin_begin(&spin));
	spin_end(&spin, true);
	/* the next failure costs one wait */
	ck_assert_uint_gt(wait_in_vain(&spin), 0);
	ck_assert_uint_eq(wait_in_vain(&spin), 0);
	ck_assert_uint_gt(wait_in_vain(&spin), 0);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("spin", setup, teardown);

	tcase_add_test(tc, spin__is_short);
	tcase_add_test(tc, spin__ends);
	tcase_add_test(tc, spin__ends_when_others_have_the_core);
	tcase_add_test(tc, spin__is_rare_where_it_fails);
	return unit_main();
}
