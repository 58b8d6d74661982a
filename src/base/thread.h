/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads beside the main loop: named, and with every signal blocked, so that signals
 * reach the loop alone.  Threads: [any]. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/* Start `run(ctx)`; at most 15 characters of `name` are shown by ps and top.
 * -EAGAIN with text.  Join it with pthread_join(). */
int thread_start(const char *name, void *(*run)(void *ctx), void *ctx,
		 pthread_t *ret_thread);

#endif
