/* SPDX-License-Identifier: BSD-3-Clause */
/* The states of sessions, channels and leases at the server, and the steps from one to another: all
 * that there are.  The manual page has the same tables, with the causes and what a client gets.
 * Pure, threads: [any]. */
#ifndef WIRE_STATES_H
#define WIRE_STATES_H

/* clang-format off */
/* Machine, states. */
#define WIRE_SESSION_STATES(S)                                                   \
	S(SESSION, NONE) S(SESSION, ACTIVE) S(SESSION, FENCED) S(SESSION, ENDED)
#define WIRE_CHANNEL_STATES(S)                                                                     \
	S(CHANNEL, NONE) S(CHANNEL, GRANTED) S(CHANNEL, ADMITTED) S(CHANNEL, UP) S(CHANNEL, ENDED)
#define WIRE_LEASE_STATES(S) S(LEASE, NONE) S(LEASE, GRANTING) S(LEASE, READY) S(LEASE, ENDED)

/* Machine, state, step, next state, and what follows at the server. */
#define WIRE_SESSION_MOVES(M)                                                                    \
	M(SESSION, NONE, OPEN, ACTIVE)      /* recorded; the welcome */                          \
	M(SESSION, NONE, RESTART, FENCED)   /* read from the ledger, with its leases */          \
	M(SESSION, ACTIVE, LOSE, FENCED)    /* channels end now, keys in slices; grace time */   \
	M(SESSION, ACTIVE, SILENCE, FENCED) /* likewise, and the client is told */               \
	M(SESSION, ACTIVE, TAKE, FENCED)    /* likewise; resumed when its keys are dead */       \
	M(SESSION, ACTIVE, REFUSE, FENCED)  /* likewise, and the client is told */               \
	M(SESSION, FENCED, RESUME, ACTIVE)  /* the welcome; leases get keys when asked for */    \
	M(SESSION, ACTIVE, BYE, ENDED)      /* unrecorded; channels, keys, unnamed leases end */ \
	M(SESSION, ACTIVE, KICK, ENDED)     /* likewise, and the client is told */               \
	M(SESSION, FENCED, KICK, ENDED)     /* unrecorded; unnamed leases end */                 \
	M(SESSION, FENCED, EXPIRE, ENDED)   /* likewise */                                       \
	M(SESSION, FENCED, YIELD, ENDED)    /* likewise; there are none */
#define WIRE_CHANNEL_MOVES(M)                                                                     \
	M(CHANNEL, NONE, OPEN, GRANTED)      /* counted for session, tenant and endpoint */       \
	M(CHANNEL, GRANTED, ADMIT, ADMITTED) /* the fabric connects it */                         \
	M(CHANNEL, ADMITTED, CONNECT, UP)    /* operations are applied */                         \
	M(CHANNEL, GRANTED, EXPIRE, ENDED)   /* uncounted */                                      \
	M(CHANNEL, ADMITTED, BREAK, ENDED)   /* uncounted */                                      \
	M(CHANNEL, UP, BREAK, ENDED)         /* uncounted; the client is told if it has to be */  \
	M(CHANNEL, GRANTED, CLOSE, ENDED)    /* uncounted; the reply */                           \
	M(CHANNEL, ADMITTED, CLOSE, ENDED)   /* closed by the fabric before; likewise */          \
	M(CHANNEL, UP, CLOSE, ENDED)         /* likewise */                                       \
	M(CHANNEL, GRANTED, LEAVE, ENDED)    /* the tenant is charged until the port is closed */ \
	M(CHANNEL, ADMITTED, LEAVE, ENDED)   /* likewise */                                       \
	M(CHANNEL, UP, LEAVE, ENDED)         /* likewise */
#define WIRE_LEASE_MOVES(M)                                                                  \
	M(LEASE, NONE, ALLOCATE, GRANTING) /* waits for clean memory, then for keys */       \
	M(LEASE, GRANTING, GRANT, READY)   /* recorded; the reply */                         \
	M(LEASE, GRANTING, CANCEL, ENDED)  /* keys die, memory is zeroed and free again */   \
	M(LEASE, READY, END, ENDED)        /* unrecorded; likewise; its sessions are told */

#define WIRE_STEPS(S) S(OPEN) S(RESTART) S(LOSE) S(SILENCE) S(TAKE) S(REFUSE) S(RESUME) S(BYE) \
	S(KICK) S(EXPIRE) S(YIELD) S(ADMIT) S(CONNECT) S(BREAK) S(CLOSE) S(LEAVE) S(ALLOCATE)  \
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
