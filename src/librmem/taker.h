/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes complete operations out of the queue, into the caller's array.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_TAKER_H
#define LIBRMEM_TAKER_H

#include "librmem/queue.h"

struct taker {
	struct rmem_queue *queue;
	struct rmem_completion *next, *end;
	/* a run of completions that is still to be counted */
	struct use *use;
	struct rmem_lease *lease;
	struct rmem_buffer *buffer;
	unsigned n_run;
};

static inline unsigned taker_room(const struct taker *taker)
{
	return (unsigned)(taker->end - taker->next);
}

/* The first n pieces in the slot are done: take their operations as long as they are whole
 * and there is room.  Returns how many it took. */
unsigned taker_wholes(struct taker *taker, struct channel_slot *slot, unsigned n);
/* Take those that are complete in the table. */
void taker_done(struct taker *taker);

/* Count what was taken; done by whoever made it, before he looks at it. */
static inline void taker_end(struct taker *taker)
{
	if (taker->n_run > 0)
		use_end(taker->use, taker->lease, taker->buffer, taker->n_run);
}

#endif
