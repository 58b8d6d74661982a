/* SPDX-License-Identifier: BSD-3-Clause */
/* How operations that were started flow into the channels: cut into pieces, and posted.  They
 * do so in lanes (op.h), and what has to wait in one of them holds up no other.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_FLOW_H
#define LIBRMEM_FLOW_H

#include "librmem/queue.h"
#include "librmem/taker.h"

/* Post what was put into a slot; what its channel does not take goes to another one. */
void flow_post(struct rmem_queue *queue, struct channel_slot *slot);
/* Whether there is something that flow_pump() may be able to post. */
static inline bool flow_waits(const struct rmem_queue *queue)
{
	return !list_empty(&queue->table.pending) ||
	       !list_empty(&queue->table.stalled) || !list_empty(&queue->table.doubt) ||
	       !list_empty(&queue->table.lost);
}
/* Post what can be posted. */
void flow_pump(struct rmem_queue *queue, uint64_t now_ns);
/* Take news and completions, these into the taker (NULL: none), end what is overdue, free
 * what is dead, then pump.  When something was taken and nothing waits, what is overdue is
 * left for the next call. */
void flow_progress(struct rmem_queue *queue, struct taker *taker);
/* For who finds nothing and comes again at once: whether something is overdue, by a cheap
 * clock. */
bool flow_overdue(const struct rmem_queue *queue);

#endif
