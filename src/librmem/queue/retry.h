/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces on no channel that only the server can help: refused ones, until it has said what
 * became of the lease, and those lost with their channel, until its end of that is dead.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_RETRY_H
#define LIBRMEM_QUEUE_RETRY_H

#include "librmem/queue/queue.h"

/* Post again, or end, what the server has spoken of. */
void retry_resolve(struct rmem_queue *queue);

#endif
