/* SPDX-License-Identifier: BSD-3-Clause */
/* A lock for a few instructions, which costs a few while no other thread has it.  Threads do not
 * get it in their order; turns.h has one that does that.  Threads: [any]. */
#ifndef LIBRMEM_SESSION_QUICK_LOCK_H
#define LIBRMEM_SESSION_QUICK_LOCK_H

#include <stdatomic.h>

/* A lock of zeros is free. */
struct quick_lock {
	_Atomic int state; /* 0 free, 1 held, 2 held and waited for */
};

/* quick_lock_acquire() when another thread has the lock. */
void quick_lock_wait(struct quick_lock *lock);
void quick_lock_wake(struct quick_lock *lock);

static inline void quick_lock_acquire(struct quick_lock *lock)
{
	int free = 0;

	if (!atomic_compare_exchange_strong_explicit(
		    &lock->state, &free, 1, memory_order_acquire, memory_order_relaxed))
		quick_lock_wait(lock);
}

static inline void quick_lock_release(struct quick_lock *lock)
{
	if (atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2)
		quick_lock_wake(lock);
}

#endif
