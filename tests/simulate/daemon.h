/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon: its own control, lease, pool and ledger code, started, paused, stopped and killed by
 * the simulation.  Its threads are jobs that the simulation runs.
 *
 * Death comes at a point in the middle of a turn: daemon_point() keeps what the next daemon will
 * find, and the rest of the turn has no effect that anybody sees. */
#ifndef TESTS_SIMULATE_DAEMON_H
#define TESTS_SIMULATE_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/control/control.h"

#define DAEMON_TENANTS 2
#define DAEMON_ENDPOINTS 3
/* What all pools of any configuration have at most. */
#define DAEMON_POOLS_BYTES_MAX (3 * UINT64_C(80) * 4096)

/* The running one. */
extern struct control daemon_control;
extern struct config daemon_config;
extern const char *const daemon_tenants[DAEMON_TENANTS];
extern bool daemon_up;
extern uint64_t daemon_paused_until_ns;
extern uint64_t daemon_awake_ns; /* since when it can act */
void daemon_pause(uint64_t until_ns);
/* Memory of the pools went to other leases without their clients' doing. */
extern bool daemon_may_revoke;
/* Sessions were ended without their clients' doing. */
extern bool daemon_may_kick;

/* Choose a configuration, without state. */
void daemon_init(void);
void daemon_start(void);
/* Die at the point number `points` from now; 0: now. */
void daemon_kill(unsigned points);
/* Begin to stop in order. */
void daemon_stop(void);
/* Of the files, when the simulation ends. */
void daemon_end(void);
/* The daemon may die here. */
void daemon_point(void);
/* It has died in this turn. */
bool daemon_is_dead(void);
/* Load another configuration. */
void daemon_reload(void);
/* Revoke a lease or end a session, as rmemctl does. */
void daemon_administer(void);
/* The same one, with other keys. */
void daemon_load_keys(void);
/* Configuration of the pools as at first. */
void daemon_heal(void);

bool daemon_ready(void);
uint64_t daemon_due_ns(void);
void daemon_turn(void);
/* A job of one of its threads; false: none is ready. */
bool daemon_work(void);
uint64_t daemon_work_due_ns(void);
/* For poll(): wait for its own threads. */
void daemon_wait(void);

#endif
