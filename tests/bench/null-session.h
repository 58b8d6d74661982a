/* SPDX-License-Identifier: BSD-3-Clause */
/* A session with the daemon's core in this process, over the device of null-verbs.h.
 * Threads: one. */
#ifndef TESTS_BENCH_NULL_SESSION_H
#define TESTS_BENCH_NULL_SESSION_H

#include <rmem/rmem.h>

#define LEASE_BYTES 65536

/* Start the server and open the session, or end the program. */
rmem *null_session_open(void);
/* End both. */
void null_session_close(rmem *session);

#endif
