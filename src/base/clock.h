/* SPDX-License-Identifier: BSD-3-Clause */
/* Monotonic time, replaceable so that expiry can be tested on a fake clock.
 * Threads: clock_set_source before threads start, all others [any]. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_now_ns(void);
uint64_t clock_now_ms(void);
/* As clock_now_ns(), up to 10 ms late (a tick of the kernel), at a fraction of the cost. */
uint64_t clock_coarse_ns(void);

/* Use `source` (nanoseconds) as the clock; NULL: the clock of the system. */
void clock_set_source(uint64_t (*source)(void));

#endif
