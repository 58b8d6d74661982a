/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a lease, by the table LEASE_MOVES. */
#include <stdlib.h>

#include "base/moves.h"
#include "librmem/lease/lease.h"

#define MOVE(from, step, to) { LEASE_##from, LEASE_STEP_##step, LEASE_##to },
static const struct move moves[] = { LEASE_MOVES(MOVE) };

/* What queues read without the lock follows. */
void lease_move(struct rmem_lease *lease, enum lease_step step)
{
	lease->state = (enum lease_state)MOVES_NEXT(moves, lease->state, step);
	if (lease->state == LEASE_ENDED || lease->state == LEASE_ENDED_LEAVING)
		atomic_store_explicit(&lease->status, -ESTALE, memory_order_release);
}

void lease_handle_free(struct rmem_lease *lease)
{
	lease_move(lease, LEASE_STEP_FREE);
	free(lease);
}
