/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/quick_lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rare.h"

RARE bool quick_lock_wait_until(struct quick_lock *lock, uint64_t until_ns)
{
	const struct timespec until = clock_monotonic_timespec(until_ns);
	bool late = false;

	while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0) {
		if (late)
			return false;
		/* FUTEX_WAIT takes an interval, FUTEX_WAIT_BITSET a time of CLOCK_MONOTONIC */
		late = syscall(SYS_futex, &lock->state, FUTEX_WAIT_BITSET_PRIVATE, 2,
			       &until, NULL, FUTEX_BITSET_MATCH_ANY) != 0 &&
		       errno == ETIMEDOUT;
	}
	return true;
}

RARE void quick_lock_wake(struct quick_lock *lock)
{
	(void)syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1);
}
