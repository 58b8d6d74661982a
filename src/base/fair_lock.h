/* SPDX-License-Identifier: BSD-3-Clause */
/* A lock without starvation between two threads of which one acquires it very often: the other, if
 * it waits, is next.  Threads: [any]. */
#ifndef BASE_FAIR_LOCK_H
#define BASE_FAIR_LOCK_H

#include <pthread.h>

/* The mutexes are locked in this order. */
struct fair_lock {
	pthread_mutex_t turn; /* held while waiting for `inside` */
	pthread_mutex_t inside;
};

static inline void fair_lock_init(struct fair_lock *gate)
{
	/* default mutexes cannot fail to initialise */
	(void)pthread_mutex_init(&gate->turn, NULL);
	(void)pthread_mutex_init(&gate->inside, NULL);
}

static inline void fair_lock_destroy(struct fair_lock *gate)
{
	(void)pthread_mutex_destroy(&gate->inside);
	(void)pthread_mutex_destroy(&gate->turn);
}

static inline void fair_lock_acquire(struct fair_lock *gate)
{
	(void)pthread_mutex_lock(&gate->turn);
	(void)pthread_mutex_lock(&gate->inside);
	(void)pthread_mutex_unlock(&gate->turn);
}

static inline void fair_lock_release(struct fair_lock *gate)
{
	(void)pthread_mutex_unlock(&gate->inside);
}

#endif
