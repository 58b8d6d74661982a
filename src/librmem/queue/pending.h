/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations as they were submitted: checked and started in that order, which is where a fence
 * holds them up.  Once started, each waits in the list of its kind, and no more for others.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_PENDING_H
#define LIBRMEM_QUEUE_PENDING_H

#include "librmem/queue/queue.h"

/* Take an operation in; the table has room.  Nothing is posted yet. */
void pending_add(struct rmem_queue *queue, const struct rmem_op *todo, uint64_t now_ns);
/* Start what no fence holds up: it goes to a list, or ends here. */
void pending_start(struct rmem_queue *queue);
/* There is news: start anew what waits to be told where atomics are done. */
void pending_homes(struct rmem_queue *queue);

#endif
