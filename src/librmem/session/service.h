/* SPDX-License-Identifier: BSD-3-Clause */
/* The two service threads of the process, for the sessions that have not asked to be driven
 * by the program: one drives them, the other connects their channels, by turns, as that takes
 * longer than heartbeats may wait.  They start with the first session and end with the last,
 * take no signals, and do not exist in a child after fork().  Threads: [any]. */
#ifndef LIBRMEM_SESSION_SERVICE_H
#define LIBRMEM_SESSION_SERVICE_H

#include <rmem/rmem.h>

/* -ENOMEM, -EMFILE, -EAGAIN (no thread) with text. */
int service_add(struct rmem *session);
/* On return the threads do not touch the session any more. */
void service_remove(struct rmem *session);

/* Have the service thread drive it, unless the program does.  What is done before, to open
 * it, costs no changes of threads.  Without the lock; no other thread has the session
 * yet. */
int service_hand_over(struct rmem *session);

#endif
