/* SPDX-License-Identifier: BSD-3-Clause */
/* The pools under the control core of the stage: fakes (stage-pools.c), or for fuzzing the daemon's
 * own (tests/fuzz/real-pools.c). */
#ifndef TESTS_UNIT_CONTROL_POOLS_H
#define TESTS_UNIT_CONTROL_POOLS_H

struct leases;
struct pools;

/* All is free. */
struct pools *control_pools_open(void);
/* The process has ended: nothing is lent until it is claimed. */
struct pools *control_pools_open_again(void);
/* The claims are made: other memory becomes free. */
void control_pools_restored(void);
void control_pools_close(void);

/* Freed memory is clean. */
void control_pools_scrub(void);
/* What is lent is what the leases have. */
void control_pools_check(const struct leases *leases);

#endif
