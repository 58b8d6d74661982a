/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces on no channel that only the server can help: refused ones, until it has said what
 * became of the lease, and those lost with their channel, until its end of that is dead.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_RETRY_H
#define LIBRMEM_QUEUE_RETRY_H

#include "librmem/queue/queue.h"

/* It was refused: wait for what the server says of its lease. */
void retry_refused(struct rmem_queue *queue, struct fragment *fragment);
/* It may have been applied, or may still be: it goes again when no packet of its channel
 * can arrive any more. */
void retry_lost(struct rmem_queue *queue, struct send_side *side,
		struct fragment *fragment);
/* Post again, or end, what the server has spoken of. */
void retry_resolve(struct rmem_queue *queue);

#endif
