/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes complete operations out of the queue, into the caller's array.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_TAKER_H
#define LIBRMEM_TAKER_H

#include "librmem/queue.h"

struct taker {
	struct rmem_queue *queue;
	struct rmem_completion *next;
	unsigned n, room;
	/* a run of completions that is still to be counted */
	struct rmem_lease *lease;
	struct rmem_buffer *buffer;
	unsigned n_run;
};

void taker_start(struct taker *taker, struct rmem_queue *queue,
		 struct rmem_completion *completions, unsigned n);
/* The first n pieces in the slot are done: take their operations as long as they are whole
 * and there is room.  Returns how many it took. */
unsigned taker_wholes(struct taker *taker, struct channel_slot *slot, unsigned n);
/* Take those that are complete in the table. */
void taker_done(struct taker *taker);
/* Count what was taken; returns how many. */
unsigned taker_end(struct taker *taker);

#endif
