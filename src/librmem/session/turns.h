/* SPDX-License-Identifier: BSD-3-Clause */
/* A lock that threads get in the order in which they ask for it: one that releases it cannot
 * acquire it again before those that wait.  Costs a few instructions while no other thread has it.
 *
 * Threads: [any]. */
#ifndef LIBRMEM_SESSION_TURNS_H
#define LIBRMEM_SESSION_TURNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "librmem/session/quick_lock.h"

struct turns {
	_Atomic int state;       /* 0 free, 1 held, 2 held and perhaps waited for */
	struct quick_lock guard; /* of `waiting`, and of its threads' state */
	struct list waiting;
};

void turns_init(struct turns *turns);
/* Wait until until_ns, as of clock_now_ns(); false: it is not this thread's turn yet. */
bool turns_wait_until(struct turns *turns, uint64_t until_ns);
/* turns_release() when a thread may wait: the lock passes to it without being free meanwhile. */
void turns_pass(struct turns *turns);

static inline bool turns_try(struct turns *turns)
{
	int free = 0;

	return atomic_compare_exchange_strong_explicit(
		&turns->state, &free, 1, memory_order_acquire, memory_order_relaxed);
}

static inline void turns_release(struct turns *turns)
{
	int held = 1;

	if (!atomic_compare_exchange_strong_explicit(&turns->state, &held, 0,
						     memory_order_release,
						     memory_order_relaxed))
		turns_pass(turns);
}

#endif
