/* SPDX-License-Identifier: BSD-3-Clause */
/* A session with the scripted server of the unit tests, over the device of null-verbs.h.
 * Threads: one. */
#ifndef TESTS_BENCH_NULL_SESSION_H
#define TESTS_BENCH_NULL_SESSION_H

#include <rmem/rmem.h>

/* Start the server and open the session, or end the program. */
rmem *null_session_open(void);
/* End both. */
void null_session_close(rmem *session);

#endif
