/* SPDX-License-Identifier: BSD-3-Clause */
/* SIGINT, SIGTERM and SIGHUP as a descriptor, for commands that clean up or print a summary before
 * they end.  They have 5 s for that: then, or at a second signal, the process ends where it is.
 * Threads: [main]. */
#ifndef RMEM_INTERRUPT_H
#define RMEM_INTERRUPT_H

#include <stdbool.h>

/* Start to catch the signals.  `temporary` is the path of a file that is removed if the process
 * ends where it is; "": none.  -errno with err_text(). */
int interrupt_catch(const char *temporary);

/* Polls readable after a signal; -1 when signals are not caught. */
int interrupt_fd(void);

/* Wait up to `ms` milliseconds for a signal; true: one has come. */
bool interrupt_wait(int ms);

/* From now on a signal ends the waits of this thread's calls of the library: -EINTR. */
void interrupt_calls(void);

/* End the process by the signal that came; returns if none came. */
void interrupt_die(void);

#endif
