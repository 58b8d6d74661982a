/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/states.h"

#include "base/moves.h"

#define MOVE(machine, from, step, to) \
	{ WIRE_##machine##_##from, WIRE_STEP_##step, WIRE_##machine##_##to },
static const struct move sessions[] = { WIRE_SESSION_MOVES(MOVE) };
static const struct move channels[] = { WIRE_CHANNEL_MOVES(MOVE) };
static const struct move leases[] = { WIRE_LEASE_MOVES(MOVE) };

void wire_session_move(enum wire_session_state *state, enum wire_step step)
{
	*state = (enum wire_session_state)MOVES_NEXT(sessions, *state, step);
}

void wire_channel_move(enum wire_channel_state *state, enum wire_step step)
{
	*state = (enum wire_channel_state)MOVES_NEXT(channels, *state, step);
}

void wire_lease_move(enum wire_lease_state *state, enum wire_step step)
{
	*state = (enum wire_lease_state)MOVES_NEXT(leases, *state, step);
}
