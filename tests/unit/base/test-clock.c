/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock counts the time for which the host was suspended. */
#include <time.h>

#include "base/clock.h"
#include "unit/suspended.h"
#include "unit/unit.h"

#define NS_PER_S UINT64_C(1000000000)

static uint64_t kernel_ns(clockid_t id)
{
	struct timespec now;

	ck_assert_int_eq(clock_gettime(id, &now), 0);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

START_TEST(clock__counts_suspended_time)
{
	uint64_t before, now, after;

	if (!unit_suspended())
		return;
	ck_assert_uint_gt(kernel_ns(CLOCK_BOOTTIME),
			  kernel_ns(CLOCK_MONOTONIC) + (SUSPENDED_S - 1) * NS_PER_S);
	before = kernel_ns(CLOCK_BOOTTIME);
	now = clock_now_ns();
	after = kernel_ns(CLOCK_BOOTTIME);
	ck_assert_uint_ge(now, before);
	ck_assert_uint_le(now, after);
}
END_TEST

/* The coarse clock never goes back, is never ahead, and follows from tick to tick. */
START_TEST(coarse_clock__follows_the_clock)
{
	uint64_t end, last = 0;

	if (_i && !unit_suspended())
		return;
	end = clock_now_ns() + 100 * NS_PER_MS;
	do {
		uint64_t tick = kernel_ns(CLOCK_MONOTONIC_COARSE);
		uint64_t coarse = clock_coarse_ns(), now = clock_now_ns();

		ck_assert_uint_ge(coarse, last);
		ck_assert_uint_le(coarse, now);
		/* read during this tick, or at its end */
		ck_assert_uint_ge(coarse + kernel_ns(CLOCK_MONOTONIC) - now,
				  tick - NS_PER_MS);
		last = coarse;
	} while (last < end);
}
END_TEST

START_TEST(monotonic_timespec__is_the_same_moment)
{
	struct timespec when;
	uint64_t ns;

	if (_i && !unit_suspended())
		return;
	when = clock_monotonic_timespec(clock_now_ns() + 3 * NS_PER_S);
	ns = (uint64_t)when.tv_sec * NS_PER_S + (uint64_t)when.tv_nsec;
	ck_assert_uint_le(ns, kernel_ns(CLOCK_MONOTONIC) + 3 * NS_PER_S + 1);
	ck_assert_uint_gt(ns, kernel_ns(CLOCK_MONOTONIC));
	/* a time in the past is now, and the end of time is far */
	when = clock_monotonic_timespec(1);
	ck_assert_int_gt(when.tv_sec + when.tv_nsec, 0);
	ck_assert_uint_le((uint64_t)when.tv_sec, kernel_ns(CLOCK_MONOTONIC) / NS_PER_S);
	when = clock_monotonic_timespec(UINT64_MAX);
	ck_assert_uint_gt((uint64_t)when.tv_sec, UINT64_MAX / NS_PER_S / 2);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("clock", NULL, NULL);

	tcase_add_test(tc, clock__counts_suspended_time);
	tcase_add_loop_test(tc, coarse_clock__follows_the_clock, 0, 2);
	tcase_add_loop_test(tc, monotonic_timespec__is_the_same_moment, 0, 2);
	return unit_main();
}
