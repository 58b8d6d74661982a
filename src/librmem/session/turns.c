/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/turns.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rare.h"

/* A thread that waits, on its stack. */
struct turn {
	struct list node;
	_Atomic int come; /* 1: the thread has the lock */
};

void turns_init(struct turns *turns)
{
	*turns = (struct turns){ .state = 0 };
	list_init(&turns->waiting);
}

/* Join those that wait.  False: the lock was released, and is acquired. */
static bool turn_await(struct turns *turns, struct turn *turn)
{
	bool waits;

	quick_lock_acquire(&turns->guard);
	waits = atomic_exchange_explicit(&turns->state, 2, memory_order_acquire) != 0;
	if (waits)
		list_append(&turns->waiting, &turn->node);
	quick_lock_release(&turns->guard);
	return waits;
}

/* Wait no longer; whether the turn has come. */
static bool turn_end(struct turns *turns, struct turn *turn)
{
	/* turns_pass() does not use `turn` any more afterwards */
	quick_lock_acquire(&turns->guard);
	list_remove(&turn->node);
	quick_lock_release(&turns->guard);
	return atomic_load_explicit(&turn->come, memory_order_relaxed);
}

RARE bool turns_wait_until(struct turns *turns, uint64_t until_ns)
{
	const struct timespec until = clock_monotonic_timespec(until_ns);
	struct turn turn = { .come = 0 };
	bool late = false;

	list_init(&turn.node);
	if (!turn_await(turns, &turn))
		return true;
	/* FUTEX_WAIT takes an interval, FUTEX_WAIT_BITSET a time of CLOCK_MONOTONIC */
	while (!late && !atomic_load_explicit(&turn.come, memory_order_acquire))
		late = syscall(SYS_futex, &turn.come, FUTEX_WAIT_BITSET_PRIVATE, 0,
			       &until, NULL, FUTEX_BITSET_MATCH_ANY) != 0 &&
		       errno == ETIMEDOUT;
	return turn_end(turns, &turn);
}

RARE void turns_pass(struct turns *turns)
{
	struct turn *next;

	quick_lock_acquire(&turns->guard);
	next = list_first(&turns->waiting, struct turn, node);
	if (next) {
		list_remove(&next->node);
		atomic_store_explicit(&next->come, 1, memory_order_release);
		(void)syscall(SYS_futex, &next->come, FUTEX_WAKE_PRIVATE, 1);
	} else {
		atomic_store_explicit(&turns->state, 0, memory_order_release);
	}
	quick_lock_release(&turns->guard);
}
