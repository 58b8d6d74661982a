/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps a call whole when its thread is cancelled: the calls hold locks and change queues around
 * system calls that are cancellation points.  A cancelled thread ends at its next cancellation
 * point after the call.  Threads: [any]. */
#ifndef LIBRMEM_SESSION_CANCEL_H
#define LIBRMEM_SESSION_CANCEL_H

#include <pthread.h>

/* Returns the state for cancel_restore().  Neither call can fail on these arguments. */
static inline int cancel_disable(void)
{
	int before;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void cancel_restore(int before)
{
	int disabled;

	(void)pthread_setcancelstate(before, &disabled);
}

#endif
