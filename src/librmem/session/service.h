/* SPDX-License-Identifier: BSD-3-Clause */
/* The two service threads of the process, for sessions without RMEM_NO_THREAD.  rmem-service drives
 * the sessions; rmem-connect connects their channels, one session after the other, as connecting
 * takes longer than heartbeats may wait.  The threads start with the first session and end with the
 * last, and receive no signals.  A child of fork() starts its own.  Threads: [any]. */
#ifndef LIBRMEM_SESSION_SERVICE_H
#define LIBRMEM_SESSION_SERVICE_H

#include <rmem/rmem.h>

/* On return the threads do not touch the session any more. */
void service_remove(struct rmem *session);

/* Hold the service's lock during a fork(). */
void service_lock(void);
void service_unlock(void);
/* In the child of a fork(): there are no threads and no sessions; the lock is free again. */
void service_reset(void);

/* Let the service thread drive the session, unless the program does.  The work done before, by the
 * opening thread, needs no switches between threads.  Without the lock; no other thread has the
 * session yet.  -ENOMEM, -EMFILE, -EAGAIN (no thread) with text. */
int service_hand_over(struct rmem *session);

#endif
