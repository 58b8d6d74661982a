// SPDX-License-Identifier: BSD-3-Clause
#include "python/waiters.h"

#include <poll.h>
#include <time.h>

#define SLICE_MS 100

void waiters_init(struct waiters *waiters)
{
	(void)pthread_mutex_init(&waiters->lock, NULL);
	(void)pthread_cond_init(&waiters->woken, NULL);
}

void waiters_wake(struct waiters *waiters)
{
	(void)pthread_mutex_lock(&waiters->lock);
	waiters->wakes++;
	(void)pthread_cond_broadcast(&waiters->woken);
	(void)pthread_mutex_unlock(&waiters->lock);
}

static struct timespec slice_end(void)
{
	struct timespec end;

	(void)clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += SLICE_MS * 1000000L;
	end.tv_sec += end.tv_nsec / 1000000000L;
	end.tv_nsec %= 1000000000L;
	return end;
}

void waiters_sleep(struct waiters *waiters, int fd, unsigned long wakes)
{
	struct pollfd readable = { .fd = fd, .events = POLLIN };
	struct timespec end = slice_end();
	bool lead = !waiters->led;

	waiters->led = true;
	Py_BEGIN_ALLOW_THREADS
	if (lead) {
		(void)poll(&readable, 1, SLICE_MS);
	} else {
		(void)pthread_mutex_lock(&waiters->lock);
		while (waiters->wakes == wakes &&
		       !pthread_cond_timedwait(&waiters->woken, &waiters->lock, &end))
			;
		(void)pthread_mutex_unlock(&waiters->lock);
	}
	Py_END_ALLOW_THREADS
	if (lead) {
		waiters->led = false;
		waiters_wake(waiters);
	}
}
