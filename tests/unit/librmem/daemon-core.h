/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's core (sessions, leases and pools) in a thread of the test, over a fabric server that
 * the test supplies.  The pools are memory of this process. */
#ifndef TESTS_UNIT_DAEMON_CORE_H
#define TESTS_UNIT_DAEMON_CORE_H

#include <stdbool.h>

#include "rmemd/config/config.h"
#include "rmemd/control/control.h"

#define CORE_SESSION 9 /* the id of the first session, and of the first lease */
#define CORE_POOL_BYTES (UINT64_C(2) << 20)

/* A session reads heartbeat and fence times when it is opened; core_start() reads all else. */
extern struct config core_config;
/* Only the core's thread uses it. */
extern struct control core;

/* Set the default configuration with a pool of CORE_POOL_BYTES, served by this fabric; no state. */
void core_init(const struct fabric_server_ops *fabric);
/* Serve at core_port of loopback, which is constant until the process ends, with the state of the
 * core that was stopped last. */
void core_start(void);
extern int core_port;
/* Stop at once, as if the process had ended. */
void core_stop(void);
/* Drop the state: the next core has no sessions and no leases. */
void core_forget(void);

/* Call fn(arg) on the core's thread, between two events of its loop; returns when fn has. */
void core_call(void (*fn)(void *arg), void *arg);
/* The number of granted leases. */
unsigned core_leases(void);

/* A non-blocking socket that listens on loopback at *port, or, if *port is 0, at a free port, which
 * is stored. */
int loopback_listen(int *port);

#endif
