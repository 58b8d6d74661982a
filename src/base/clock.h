/* SPDX-License-Identifier: BSD-3-Clause */
/* Monotonic time, replaceable so that expiry can be tested on a fake clock.
 * Threads: clock_set_source before threads start, all others [any]. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_now_ns(void);
uint64_t clock_now_ms(void);
/* The same time, late by a tick of the kernel at most (10 ms), for a fraction of the cost. */
uint64_t clock_coarse_ns(void);

/* Take the time (nanoseconds) from `source` from now on; NULL: the system's again. */
void clock_set_source(uint64_t (*source)(void));

#endif
