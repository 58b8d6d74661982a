/* SPDX-License-Identifier: BSD-3-Clause */
/* Gives up operations that are cancelled, or that have made no progress for their time-out.
 *
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_DEADLINES_H
#define LIBRMEM_QUEUE_DEADLINES_H

#include "librmem/queue/queue.h"

/* Give up an operation, after runs_split_all(); `reason` is its result: -ECANCELED or
 * -ETIMEDOUT. */
void deadlines_give_up(struct rmem_queue *queue, struct op *op, int reason);
/* Let each outstanding operation time out at deadline_ns, unless it makes progress before. */
void deadlines_limit(struct rmem_queue *queue, uint64_t deadline_ns);
/* Give up overdue operations, and fragments that dead connections do not flush in time. */
void deadlines_handle(struct rmem_queue *queue, uint64_t now_ns);

#endif
