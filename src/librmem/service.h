/* SPDX-License-Identifier: BSD-3-Clause */
/* The one service thread of the process: it drives the sessions that have not asked to be
 * driven by the program.  It starts with the first of them and ends with the last.  It
 * takes no signals, and does not exist in a child after fork().  Threads: [any]. */
#ifndef LIBRMEM_SERVICE_H
#define LIBRMEM_SERVICE_H

#include <rmem/rmem.h>

/* -ENOMEM, -EMFILE, -EAGAIN (no thread) with text. */
int service_add(struct rmem *session);
/* On return the thread does not touch the session any more. */
void service_remove(struct rmem *session);

#endif
