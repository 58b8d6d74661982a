/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/quick_lock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/rare.h"

RARE void quick_lock_wait(struct quick_lock *lock)
{
	while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
		(void)syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL);
}

RARE void quick_lock_wake(struct quick_lock *lock)
{
	(void)syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1);
}
