/* SPDX-License-Identifier: BSD-3-Clause */
/* Monotonic time, replaceable so that expiry can be tested on a fake clock.
 * Threads: clock_now_* [any]; clock_set_source before threads start. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_now_ns(void);
uint64_t clock_now_ms(void);

/* Take the time (nanoseconds) from `source` from now on; NULL: the system's again. */
void clock_set_source(uint64_t (*source)(void));

#endif
