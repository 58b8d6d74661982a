/* SPDX-License-Identifier: BSD-3-Clause */
/* What the stages of leases and of the control core have in common. */
#ifndef TESTS_UNIT_STAGE_STATE_H
#define TESTS_UNIT_STAGE_STATE_H

#include <stdint.h>

struct ledger;

extern uint64_t stage_now_ms;
extern unsigned stage_wakes; /* calls for slices_run() */

/* Create a ledger in a new file without a name; open the file again. */
struct ledger *stage_ledger_new(void);
struct ledger *stage_ledger_again(struct ledger *ledger);

#endif
