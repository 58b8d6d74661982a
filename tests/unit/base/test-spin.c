/* SPDX-License-Identifier: BSD-3-Clause */
/* Looking again before sleeping. */
#include <sched.h>

#include "base/clock.h"
#include "base/spin.h"
#include "unit/unit.h"

/* A look takes step_ns, and those to whom the core is given have it for turn_ns. */
static uint64_t now_ns, step_ns, turn_ns;

static uint64_t clock_step(void)
{
	return now_ns += step_ns;
}

/* Instead of the C library's. */
int sched_yield(void)
{
	now_ns += turn_ns;
	return 0;
}

static void setup(void)
{
	now_ns = 1;
	step_ns = 500;
	turn_ns = 0;
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

/* Threads that answer each other: their turns are no time of this one's. */
START_TEST(spin__lets_others_have_short_turns)
{
	struct spin spin = { 0 };
	uint64_t begin_ns = now_ns;
	unsigned looks;

	turn_ns = 30000;
	looks = wait_in_vain(&spin);
	/* 50 us of its own; before each look but the first ten, which a device answers, others
	 * have a turn */
	ck_assert_uint_ge(looks, 90);
	ck_assert_uint_le(looks, 100);
	ck_assert_uint_ge(now_ns - begin_ns, (looks - 11) * turn_ns);
	/* they have the core before the first look of the next wait */
	spin = (struct spin){ .shared = true };
	begin_ns = now_ns;
	ck_assert(spin_begin(&spin));
	ck_assert(spin_more(&spin));
	ck_assert_uint_ge(now_ns - begin_ns, turn_ns);
	/* until they do not want it any more */
	turn_ns = 0;
	ck_assert(spin_more(&spin));
	ck_assert(!spin.shared);
}
END_TEST

/* One that computes. */
START_TEST(spin__ends_when_another_keeps_the_core)
{
	struct spin spin = { .shared = true };

	turn_ns = 200000;
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
	tcase_add_test(tc, spin__lets_others_have_short_turns);
	tcase_add_test(tc, spin__ends_when_another_keeps_the_core);
	tcase_add_test(tc, spin__is_rare_where_it_fails);
	return unit_main();
}
