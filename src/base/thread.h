/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads beside the main loop: named, and with all signals blocked, so that only the main thread
 * gets signals.  Threads: [any]. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/* Start `run(ctx)`; ps and top show up to 15 characters of `name`.
 * -EAGAIN with text.  Join it with pthread_join(). */
int thread_start(const char *name, void *(*run)(void *ctx), void *ctx,
		 pthread_t *ret_thread);

#endif
