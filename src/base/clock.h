/* SPDX-License-Identifier: BSD-3-Clause */
/* Monotonic time that also runs while the host is suspended (CLOCK_BOOTTIME): deadlines that two
 * hosts agree on, such as a session's fence, hold whichever of them sleeps.  Replaceable, so that
 * expiry can be tested on a fake clock.
 * Threads: clock_set_source before threads start, all others [any]. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_MS UINT64_C(1000000)

uint64_t clock_now_ns(void);
uint64_t clock_now_ms(void);
/* A time that a file gave, or now if that is earlier: what has happened did not happen later. */
uint64_t clock_past_ms(uint64_t ms);
/* As clock_now_ns(), up to 10 ms late (a tick of the kernel), at a fraction of the cost. */
uint64_t clock_coarse_ns(void);
/* For timers that are set to times of clock_now_ns(). */
#define CLOCK_TIMER_ID CLOCK_BOOTTIME

/* The time of the CPU that the calling thread has used. */
uint64_t clock_thread_ns(void);

/* A time of clock_now_ns() for system calls; never 0, which some of them take for "never". */
static inline struct timespec clock_timespec(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u),
				  .tv_nsec = (long)(ns % 1000000000u) | 1 };
}

/* A time of clock_now_ns() for waits that know only CLOCK_MONOTONIC. */
struct timespec clock_monotonic_timespec(uint64_t ns);

/* Use `source` (nanoseconds) as the clock; NULL: the clock of the system. */
void clock_set_source(uint64_t (*source)(void));

#endif
