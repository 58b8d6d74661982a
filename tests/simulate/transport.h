/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's end of control connections, in place of src/rmemd/control/connections.c: the same
 * contract (connection.h) over the sockets of network.h. */
#ifndef TESTS_SIMULATE_TRANSPORT_H
#define TESTS_SIMULATE_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "rmemd/control/control.h"

/* Whether there is something to accept, to read or to write. */
bool transport_ready(struct connections *connections);
/* When a connection without a hello, or a closed one, ends. */
uint64_t transport_due_ns(struct connections *connections);
/* Accept, read, handle requests, write. */
void transport_turn(struct connections *connections);

#endif
