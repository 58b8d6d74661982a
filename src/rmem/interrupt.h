/* SPDX-License-Identifier: BSD-3-Clause */
/* SIGINT, SIGTERM and SIGHUP as a descriptor, for commands that have something to clean
 * up or to print before they end.  Threads: none but main. */
#ifndef RMEM_INTERRUPT_H
#define RMEM_INTERRUPT_H

#include <stdbool.h>

/* Catch the signals from now on.  -errno with err_text(). */
int interrupt_catch(void);

/* Polls readable once a signal has come; -1 when none is caught. */
int interrupt_fd(void);

/* Whether a signal has come. */
bool interrupt_pending(void);

/* Die of the signal that came, as if it had never been caught; returns when none came.
 */
void interrupt_die(void);

#endif
