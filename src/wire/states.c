/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/states.h"

#include <assert.h>
#include <stdbool.h>

#define MOVE(machine, from, by, to)                                        \
	if (*state == WIRE_##machine##_##from && step == WIRE_STEP_##by) { \
		*state = WIRE_##machine##_##to;                            \
		return;                                                    \
	}

void wire_session_move(enum wire_session_state *state, enum wire_step step)
{
	WIRE_SESSION_MOVES(MOVE)
	assert(false);
}

void wire_channel_move(enum wire_channel_state *state, enum wire_step step)
{
	WIRE_CHANNEL_MOVES(MOVE)
	assert(false);
}

void wire_lease_move(enum wire_lease_state *state, enum wire_step step)
{
	WIRE_LEASE_MOVES(MOVE)
	assert(false);
}
