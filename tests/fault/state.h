/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the state of a session, to diagnose one that makes no progress. */
#ifndef TESTS_FAULT_STATE_H
#define TESTS_FAULT_STATE_H

#include <stdio.h>

#include <rmem/rmem.h>

/* Print the session, its domains, queues and channels, a line each.  The thread that owns the
 * queues must call it, or sleep meanwhile. */
void state_print(FILE *to, struct rmem *session);

#endif
