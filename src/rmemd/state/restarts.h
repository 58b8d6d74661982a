/* SPDX-License-Identifier: BSD-3-Clause */
/* How often a process has taken over sessions or leases of the last one, counted in the ledger.
 * Threads: [loop]. */
#ifndef RMEMD_STATE_RESTARTS_H
#define RMEMD_STATE_RESTARTS_H

#include <stdint.h>

struct ledger;

/* The number in the ledger. */
uint64_t restarts_get(const struct ledger *ledger);
/* Count one more, and commit.  -ENOMEM, -ENOSPC: it is not counted */
int restarts_add(struct ledger *ledger);

#endif
