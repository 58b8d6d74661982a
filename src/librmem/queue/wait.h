/* SPDX-License-Identifier: BSD-3-Clause */
/* How rmem_poll(), rmem_wait() and the synchronous calls take completions.
 *
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_WAIT_H
#define LIBRMEM_QUEUE_WAIT_H

#include "librmem/queue/schedule.h"

#define POLL_MORE (-1)

/* Take up to n completions, until there are `min`, which are outstanding, or it is until_ns;
 * UINT64_MAX: without a limit.  Returns how many were taken. */
int queue_wait(struct rmem_queue *queue, struct rmem_completion *completions,
	       unsigned n, unsigned min, uint64_t until_ns);

/* Take the completion of the only outstanding operation, or find that it is not complete.  Returns
 * how many were taken; POLL_MORE: other work is to be done. */
static inline int poll_single(struct rmem_queue *queue,
			      struct rmem_completion *ret_completion)
{
	unsigned i = 0;

	if (queue_outstanding(queue) != 1 ||
	    (queue->table.n_done | queue->channels.n_dead) > 0 ||
	    atomic_load_explicit(&queue->woken, memory_order_acquire))
		return POLL_MORE;
	do {
		int n = queue->cqs[i]
				? queue->ops->poll(queue->cqs[i], queue->wcs, QUEUE_WCS)
				: 0;

		if (n == 0)
			continue;
		if (n == 1 && complete_single(queue, queue->wcs, ret_completion))
			return 1;
		queue->now_ns = 0;
		complete_wcs(queue, i, n, NULL);
		return POLL_MORE;
	} while (++i < queue->n_cqs);
	return schedule_waits(queue) || schedule_overdue(queue) ? POLL_MORE : 0;
}

#endif
