/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that wait for one descriptor: one waits for it, the others until that one has woken. */
#ifndef PYTHON_WAITERS_H
#define PYTHON_WAITERS_H

#include "python/module.h"

#include <pthread.h>

struct waiters {
	bool led;
	pthread_mutex_t lock; /* of: */
	pthread_cond_t woken;
	unsigned long wakes;
};

void waiters_init(struct waiters *waiters);
void waiters_wake(struct waiters *waiters);
/* Sleep, without Python's lock, until the descriptor is readable or waiters_wake() was called since
 * there were `wakes`; for 100 ms at most, after which signals are to be looked at. */
void waiters_sleep(struct waiters *waiters, int fd, unsigned long wakes);

#endif
