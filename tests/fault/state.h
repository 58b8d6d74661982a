/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a session stands, for who has to find out why it does not go on. */
#ifndef TESTS_FAULT_STATE_H
#define TESTS_FAULT_STATE_H

#include <stdio.h>

#include <rmem/rmem.h>

/* Its link, domains, queues and channels, a line each.  The owner of its queues may be
 * asleep only. */
void state_print(FILE *to, struct rmem *session);

#endif
