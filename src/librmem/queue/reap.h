/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes complete operations out of the queue, into the caller's array.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_REAP_H
#define LIBRMEM_QUEUE_REAP_H

#include "librmem/queue/queue.h"

struct reaper {
	struct rmem_queue *queue;
	struct rmem_completion *next, *end;
	/* a run of completions that is still to be counted */
	struct inflight *inflight;
	struct rmem_lease *lease;
	struct rmem_buffer *buffer;
	unsigned n_run;
};

static inline unsigned reap_room(const struct reaper *reaper)
{
	return (unsigned)(reaper->end - reaper->next);
}

/* The first n fragments in the channel are done: take their operations as long as they are whole
 * and there is room.  Returns how many it took. */
unsigned reap_wholes(struct reaper *reaper, struct send_side *side, unsigned n);
/* Take those that are complete in the table. */
void reap_done(struct reaper *reaper);

/* Count what was taken; done by whoever made it, before he looks at it. */
static inline void reap_end(struct reaper *reaper)
{
	if (reaper->n_run > 0)
		inflight_end(reaper->inflight, reaper->lease, reaper->buffer,
			     reaper->n_run);
}

#endif
