/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves complete operations out of the queue, into the caller's array.
 *
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_REAP_H
#define LIBRMEM_QUEUE_REAP_H

#include "librmem/queue/complete.h"

struct reaper {
	struct rmem_queue *queue;
	struct rmem_completion *next, *end;
};

/* Move the operations of the list `done` into the reaper's array. */
void reap_done(struct reaper *reaper);

#endif
