/* SPDX-License-Identifier: BSD-3-Clause */
/* How operations flow into the channels: taken in, checked, cut into pieces, posted.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_FLOW_H
#define LIBRMEM_FLOW_H

#include "librmem/queue.h"
#include "librmem/taker.h"

/* Take an operation in; the table has room.  Nothing is posted yet. */
void flow_add(struct rmem_queue *queue, const struct rmem_op *todo, uint64_t now_ns);
/* Post what was put into a slot; what its channel does not take goes to another one. */
void flow_post(struct rmem_queue *queue, struct channel_slot *slot);
/* Whether there is something that flow_pump() may be able to post. */
static inline bool flow_waits(const struct rmem_queue *queue)
{
	return !list_empty(&queue->table.pending) || !list_empty(&queue->table.again) ||
	       !list_empty(&queue->table.doubt) || !list_empty(&queue->table.lost);
}
/* Post what can be posted. */
void flow_pump(struct rmem_queue *queue, uint64_t now_ns);
/* Take news and completions, these into the taker (NULL: none), end what is overdue, free
 * what is dead, then pump.  When something was taken and nothing waits, what is overdue is
 * left for the next call. */
void flow_progress(struct rmem_queue *queue, struct taker *taker);

#endif
