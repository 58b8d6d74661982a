/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages between clients and daemon, as its transport (src/rmemd/control/connections.c)
 * passes them on: each is checked and noted, and the daemon may die before it sends one. */
#ifndef TESTS_SIMULATE_MESSAGES_H
#define TESTS_SIMULATE_MESSAGES_H

#include "fabric/address.h"

/* Where the client connects from. */
struct fabric_address messages_address(unsigned client);

#endif
