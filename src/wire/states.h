/* SPDX-License-Identifier: BSD-3-Clause */
/* The states of sessions, channels and leases at the server, and the steps from one to another: all
 * that there are.  The manual page has the same tables, with what a client sees of each step.
 * Pure, threads: [any]. */
#ifndef WIRE_STATES_H
#define WIRE_STATES_H

/* clang-format off */
/* Machine, states. */
#define WIRE_SESSION_STATES(S) \
	S(SESSION, NONE) S(SESSION, ACTIVE) S(SESSION, FENCED) S(SESSION, ENDED)
#define WIRE_CHANNEL_STATES(S) \
	S(CHANNEL, NONE) S(CHANNEL, GRANTED) S(CHANNEL, ADMITTED) S(CHANNEL, UP) S(CHANNEL, ENDED)
#define WIRE_LEASE_STATES(S) S(LEASE, NONE) S(LEASE, GRANTING) S(LEASE, READY) S(LEASE, ENDED)

/* Machine, state, step, next state. */
#define WIRE_SESSION_MOVES(M)                       \
	M(SESSION, NONE, OPEN, ACTIVE)              \
	M(SESSION, NONE, RESTART, FENCED)           \
	M(SESSION, ACTIVE, LOSE, FENCED)            \
	M(SESSION, ACTIVE, SILENCE, FENCED)         \
	M(SESSION, ACTIVE, TAKE, FENCED)            \
	M(SESSION, ACTIVE, REFUSE, FENCED)          \
	M(SESSION, FENCED, RESUME, ACTIVE)          \
	M(SESSION, ACTIVE, BYE, ENDED)              \
	M(SESSION, ACTIVE, KICK, ENDED)             \
	M(SESSION, FENCED, KICK, ENDED)             \
	M(SESSION, FENCED, EXPIRE, ENDED)           \
	M(SESSION, FENCED, YIELD, ENDED)
#define WIRE_CHANNEL_MOVES(M)                       \
	M(CHANNEL, NONE, OPEN, GRANTED)             \
	M(CHANNEL, GRANTED, ADMIT, ADMITTED)        \
	M(CHANNEL, ADMITTED, CONNECT, UP)           \
	M(CHANNEL, GRANTED, EXPIRE, ENDED)          \
	M(CHANNEL, ADMITTED, BREAK, ENDED)          \
	M(CHANNEL, UP, BREAK, ENDED)                \
	M(CHANNEL, GRANTED, CLOSE, ENDED)           \
	M(CHANNEL, ADMITTED, CLOSE, ENDED)          \
	M(CHANNEL, UP, CLOSE, ENDED)                \
	M(CHANNEL, GRANTED, LEAVE, ENDED)           \
	M(CHANNEL, ADMITTED, LEAVE, ENDED)          \
	M(CHANNEL, UP, LEAVE, ENDED)
#define WIRE_LEASE_MOVES(M)                         \
	M(LEASE, NONE, ALLOCATE, GRANTING)          \
	M(LEASE, GRANTING, GRANT, READY)            \
	M(LEASE, GRANTING, CANCEL, ENDED)           \
	M(LEASE, READY, END, ENDED)

#define WIRE_STEPS(S) S(OPEN) S(RESTART) S(LOSE) S(SILENCE) S(TAKE) S(REFUSE) S(RESUME) S(BYE) \
	S(KICK) S(EXPIRE) S(YIELD) S(ADMIT) S(CONNECT) S(BREAK) S(CLOSE) S(LEAVE) S(ALLOCATE) \
	S(GRANT) S(CANCEL) S(END)
/* clang-format on */

#define WIRE_STATE_ENUM(machine, state) WIRE_##machine##_##state,
enum wire_session_state { WIRE_SESSION_STATES(WIRE_STATE_ENUM) };
enum wire_channel_state { WIRE_CHANNEL_STATES(WIRE_STATE_ENUM) };
enum wire_lease_state { WIRE_LEASE_STATES(WIRE_STATE_ENUM) };

#define WIRE_STEP_ENUM(step) WIRE_STEP_##step,
enum wire_step { WIRE_STEPS(WIRE_STEP_ENUM) };

/* Take a step, which there must be from this state. */
void wire_session_move(enum wire_session_state *state, enum wire_step step);
void wire_channel_move(enum wire_channel_state *state, enum wire_step step);
void wire_lease_move(enum wire_lease_state *state, enum wire_step step);

#endif
