/* SPDX-License-Identifier: BSD-3-Clause */
/* Leases that a client shares with the other tenant, for reading, and the clients that are its
 * guests.  Only after rmem_share() has begun, and until rmem_unshare() has ended, guests have
 * keys. */
#ifndef TESTS_SIMULATE_SHARES_H
#define TESTS_SIMULATE_SHARES_H

#include "simulate/held.h"

void shares_init(void);
void shares_end(void);
/* Share it, or end that. */
void shares_change(struct program *program, struct held *held);
/* Attach, read and leave a lease that another tenant shares. */
void shares_visit(struct program *program);
/* After each step: no key of a guest without a share. */
void shares_check(void);

#endif
