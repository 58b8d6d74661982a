/* SPDX-License-Identifier: BSD-3-Clause */
/* A lock that costs a few instructions while no other thread has it.  Threads: [any]. */
#ifndef LIBRMEM_SESSION_QUICK_LOCK_H
#define LIBRMEM_SESSION_QUICK_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A lock of zeros is free. */
struct quick_lock {
	_Atomic int state; /* 0 free, 1 held, 2 held and waited for */
};

/* Wait until until_ns, as of clock_now_ns(); false: another thread has the lock still. */
bool quick_lock_wait_until(struct quick_lock *lock, uint64_t until_ns);
void quick_lock_wake(struct quick_lock *lock);

static inline bool quick_lock_try(struct quick_lock *lock)
{
	int free = 0;

	return atomic_compare_exchange_strong_explicit(
		&lock->state, &free, 1, memory_order_acquire, memory_order_relaxed);
}

static inline void quick_lock_acquire(struct quick_lock *lock)
{
	if (!quick_lock_try(lock))
		(void)quick_lock_wait_until(lock, UINT64_MAX);
}

static inline void quick_lock_release(struct quick_lock *lock)
{
	if (atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2)
		quick_lock_wake(lock);
}

#endif
