/* SPDX-License-Identifier: BSD-3-Clause */
/* Two threads of a client that attach and detach the same leases, in one session, as the other
 * clients of their tenant do. */
#ifndef TESTS_SIMULATE_MATES_H
#define TESTS_SIMULATE_MATES_H

#include "simulate/held.h"

/* Something of the client's first thread, or of its second, 1. */
void mates_act(struct program *program, unsigned which);
/* What the second thread does. */
void mates_work(struct program *program);
/* Nothing is in the way: they can be attached and used. */
void mates_prove(struct program *program);
/* Before the session is closed: wait until the second thread is in no call. */
void mates_stop(struct program *program);

#endif
