/* SPDX-License-Identifier: BSD-3-Clause */
/* The clients: programs that use librmem with RMEM_NO_THREAD, each with two threads, which are
 * stacks of their own.  Where a call would wait for a descriptor or the other thread, the next step
 * of the simulation follows. */
#ifndef TESTS_SIMULATE_CLIENTS_H
#define TESTS_SIMULATE_CLIENTS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "simulate/sim.h"

/* What the clients are to do; they go on to the next when all have reached it. */
enum phase {
	PHASE_WORK,  /* anything */
	PHASE_QUIET, /* finish what was begun, and keep the session alive */
	PHASE_PROVE, /* show that all of it works again */
	PHASE_CLOSE, /* end the session */
};
extern enum phase clients_phase;

void clients_init(unsigned n);
void clients_end(void);
/* Let one that is ready run; false: none is. */
bool clients_step(void);
bool clients_ready(void);
uint64_t clients_due_ns(void);
/* The client whose code runs. */
unsigned client_running(void);
/* All have reached the present phase. */
bool clients_reached(void);
void client_reached(enum phase phase);

/* Stop a client as by SIGSTOP. */
void client_pause(unsigned client, uint64_t until_ns);
void clients_heal(void);
unsigned clients_count(void);

/* ---- for a client's own code ---- */

/* Wait for one of these descriptors, or until a time. */
void client_wait(const struct pollfd *fds, unsigned n, uint64_t until_ns);
/* Wait until the condition variable is signalled, or until a time. */
void client_wait_cond(const void *cond, uint64_t until_ns);
void clients_signal(const void *cond);
/* A call of the library begins, which is to end within a time; it has ended. */
void client_call_begin(const char *name, uint64_t limit_ms);
void client_call_end(void);
/* Nothing has disturbed the client for this time. */
bool client_is_calm(uint64_t ms);

#endif
