/* SPDX-License-Identifier: BSD-3-Clause */
/* The moves of the ledger to another area: to a larger one, or to one without obsolete records. */
#ifndef RMEMD_LEDGER_LEDGER_MOVE_H
#define RMEMD_LEDGER_LEDGER_MOVE_H

#include "rmemd/state/ledger_file.h"

/* After a commit of `bytes`: begin a move that is due, and do a part of it. */
void ledger_move_on(struct ledger *ledger, uint64_t bytes);
/* Move to an area of at least `needed` bytes at once, with what is staged. */
int ledger_grow(struct ledger *ledger, uint64_t needed);

#endif
