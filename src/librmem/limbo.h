/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces on no channel that only the server can help: refused ones, until it has said what
 * became of the lease, and those lost with their channel, until its end of that is dead.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_LIMBO_H
#define LIBRMEM_LIMBO_H

#include "librmem/queue.h"

/* It was refused: wait for what the server says of its lease. */
void limbo_doubt(struct rmem_queue *queue, struct piece *piece);
/* It may have been applied, or may still be: it goes again when no packet of its channel
 * can arrive any more. */
void limbo_lose(struct rmem_queue *queue, struct channel_slot *slot,
		struct piece *piece);
/* Post again, or end, what the server has spoken of. */
void limbo_resolve(struct rmem_queue *queue);

#endif
