/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules operations.  They are checked and started in submission order, where a fence may hold
 * them up; once started, each waits in a wait list (op.h) to be cut into fragments and posted, and
 * holds up no other list.
 *
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_SCHEDULE_H
#define LIBRMEM_QUEUE_SCHEDULE_H

#include "librmem/queue/complete.h"
#include "librmem/queue/queue.h"

/* Add an operation to a table that has room.  Nothing is posted yet. */
void schedule_add(struct rmem_queue *queue, const struct rmem_op *todo);
/* Handle changes of channels, leases and domains. */
void schedule_events(struct rmem_queue *queue);
/* Post the fragments put into a channel; those that its connection does not accept wait for another
 * channel. */
void schedule_post(struct rmem_queue *queue, struct send_side *side);
/* Whether schedule_pump() may find something to post. */
static inline bool schedule_waits(const struct rmem_queue *queue)
{
	return !list_empty(&queue->table.pending) ||
	       !list_empty(&queue->table.stalled) ||
	       !list_empty(&queue->table.refused) || !list_empty(&queue->table.lost);
}
/* Post as much as possible. */
void schedule_pump(struct rmem_queue *queue, uint64_t now_ns);
/* Handle events; process completions, into the reaper (NULL: none); end overdue operations; free
 * dead connections; then pump.  If completions were taken and nothing waits, overdue operations are
 * left for the next call. */
void schedule_progress(struct rmem_queue *queue, struct reaper *reaper);
/* Whether an operation is overdue by the coarse clock, which is precise enough for a caller that
 * found no completion and calls again at once. */
bool schedule_overdue(const struct rmem_queue *queue);

#endif
