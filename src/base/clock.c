/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"

#include <stddef.h>
#include <time.h>

static uint64_t (*clock_source)(void);

uint64_t clock_now_ns(void)
{
	struct timespec ts;

	if (clock_source)
		return clock_source();
	/* CLOCK_MONOTONIC cannot fail on Linux */
	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t clock_coarse_ns(void)
{
	struct timespec ts;

	if (clock_source)
		return clock_source();
	(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t clock_now_ms(void)
{
	return clock_now_ns() / 1000000u;
}

void clock_set_source(uint64_t (*source)(void))
{
	clock_source = source;
}
