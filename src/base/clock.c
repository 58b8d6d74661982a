/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"

#include <stdatomic.h>
#include <time.h>

static uint64_t (*clock_source)(void);

static uint64_t clock_read_ns(clockid_t id)
{
	struct timespec ts;

	/* these clocks cannot fail on Linux */
	(void)clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t clock_now_ns(void)
{
	return clock_source ? clock_source() : clock_read_ns(CLOCK_BOOTTIME);
}

/* There is no coarse CLOCK_BOOTTIME: CLOCK_MONOTONIC_COARSE tells when a tick has passed, and
 * then CLOCK_BOOTTIME is read again. */
uint64_t clock_coarse_ns(void)
{
	static _Atomic uint64_t tick_ns, boot_ns;
	uint64_t now_ns, tick;

	if (clock_source)
		return clock_source();
	tick = clock_read_ns(CLOCK_MONOTONIC_COARSE);
	if (atomic_load_explicit(&tick_ns, memory_order_acquire) == tick)
		return atomic_load_explicit(&boot_ns, memory_order_relaxed);
	now_ns = clock_read_ns(CLOCK_BOOTTIME);
	/* first: a thread that sees the tick has the time that belongs to it, or a later one */
	atomic_store_explicit(&boot_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&tick_ns, tick, memory_order_release);
	return now_ns;
}

uint64_t clock_now_ms(void)
{
	return clock_now_ns() / NS_PER_MS;
}

uint64_t clock_past_ms(uint64_t ms)
{
	uint64_t now_ms = clock_now_ms();

	return ms < now_ms ? ms : now_ms;
}

struct timespec clock_monotonic_timespec(uint64_t ns)
{
	uint64_t now_ns = clock_now_ns(), monotonic_ns = clock_read_ns(CLOCK_MONOTONIC);
	uint64_t left_ns = ns > now_ns ? ns - now_ns : 0;

	return clock_timespec(left_ns < UINT64_MAX - monotonic_ns
				      ? monotonic_ns + left_ns
				      : UINT64_MAX);
}

uint64_t clock_thread_ns(void)
{
	return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

void clock_set_source(uint64_t (*source)(void))
{
	clock_source = source;
}
