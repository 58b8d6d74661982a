/* SPDX-License-Identifier: BSD-3-Clause */
/* How operations flow into the channels.  They are checked and started as they were submitted,
 * which is where a fence holds them up; once started, each waits in the list of its kind (op.h)
 * to be cut into fragments and posted, and holds up no other list.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_SCHEDULE_H
#define LIBRMEM_QUEUE_SCHEDULE_H

#include "librmem/queue/complete.h"
#include "librmem/queue/queue.h"

/* Take an operation in; the table has room.  Nothing is posted yet. */
void schedule_add(struct rmem_queue *queue, const struct rmem_op *todo,
		  uint64_t now_ns);
/* Look at channels and leases that have news. */
void schedule_news(struct rmem_queue *queue);
/* Post what was put into a channel; what its channel does not take goes to another one. */
void schedule_post(struct rmem_queue *queue, struct send_side *side);
/* Whether there is something that schedule_pump() may be able to post. */
static inline bool schedule_waits(const struct rmem_queue *queue)
{
	return !list_empty(&queue->table.pending) ||
	       !list_empty(&queue->table.stalled) || !list_empty(&queue->table.doubt) ||
	       !list_empty(&queue->table.lost);
}
/* Post what can be posted. */
void schedule_pump(struct rmem_queue *queue, uint64_t now_ns);
/* Take news and completions, these into the reaper (NULL: none), end what is overdue, free
 * what is dead, then pump.  When something was taken and nothing waits, what is overdue is
 * left for the next call. */
void schedule_progress(struct rmem_queue *queue, struct reaper *reaper);
/* For who finds nothing and comes again at once: whether something is overdue, by a cheap
 * clock. */
bool schedule_overdue(const struct rmem_queue *queue);

#endif
