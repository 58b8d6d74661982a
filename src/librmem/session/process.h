/* SPDX-License-Identifier: BSD-3-Clause */
/* The sessions of this process, and what becomes of them in the child of a fork().  The child's
 * copies of their descriptors are closed before fork() returns there: the connections are the
 * parent's.  In the child the sessions are `inherited`, and are left alone from then on, memory
 * included, as other threads of the parent may have been at work on it.  Descriptors of a queue
 * that another thread is creating during the fork stay open until the child ends or calls exec().
 * Threads: [any]. */
#ifndef LIBRMEM_SESSION_PROCESS_H
#define LIBRMEM_SESSION_PROCESS_H

#include "librmem/session/session.h"

/* Between these two calls no other thread forks: a descriptor is opened or closed together with the
 * lists in which the child finds it. */
void process_hold(void);
void process_release(void);

/* Held: whether a child can be told.  -ENOMEM */
int process_check(void);
/* Held: add a session whose lock, connection and descriptors exist.  -ENOMEM */
int process_add(struct rmem *session);
/* Held: remove a session that is not inherited, and has no descriptors. */
void process_remove(struct rmem *session);
#endif
