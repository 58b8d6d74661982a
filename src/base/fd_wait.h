/* SPDX-License-Identifier: BSD-3-Clause */
/* Wait for a descriptor, until a deadline or until another thread cancels the wait.
 * Threads: [any]. */
#ifndef BASE_FD_WAIT_H
#define BASE_FD_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How long a cancelled wait may go on. */
#define FD_WAIT_CANCEL_MS 100

/* Wait until poll(2) reports one of `events`, or an error, of the descriptor.
 *   fd           -1: only for the deadline
 *   deadline_ms  of clock_now_ms()
 *   cancelled    ends the wait within FD_WAIT_CANCEL_MS when it becomes true; NULL: never
 *   -ETIMEDOUT, -ECANCELED, or an error of poll(2); no text is set */
int fd_wait(int fd, short events, uint64_t deadline_ms, const atomic_bool *cancelled);

#endif
