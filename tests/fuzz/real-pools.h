/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's own pools under the control core of the stage, one of 2 MiB pages.  What is replaced
 * is the kernel's memory, for huge pages are not everywhere, and the threads: their work is done
 * when control_pools_scrub() is called. */
#ifndef TESTS_FUZZ_REAL_POOLS_H
#define TESTS_FUZZ_REAL_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#define REAL_PAGE UINT64_C(4096)
#define REAL_HUGE (UINT64_C(2) << 20)
#define REAL_BYTES (96 * REAL_PAGE)     /* of the pool of base pages */
#define REAL_HUGE_BYTES (3 * REAL_HUGE) /* of the other one */

/* Begin to shrink a pool that rests to `bytes`, or to grow it; else go on with that, or give it up
 * if leases are in its end. */
void real_pools_resize(unsigned pool, uint64_t bytes, uint64_t until_ms, bool revoke);
/* Nothing is reclaimed any more. */
void real_pools_rest(void);
/* The rules of owners_find() hold. */
void real_pools_check(void);

#endif
