/* SPDX-License-Identifier: BSD-3-Clause */
/* How operations end: completions, refusals, errors, verdicts.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_COMPLETE_H
#define LIBRMEM_QUEUE_COMPLETE_H

#include "base/rare.h"
#include "librmem/queue/queue.h"

/* Takes complete operations out of the queue, into the caller's array. */
struct reaper {
	struct rmem_queue *queue;
	struct rmem_completion *next, *end;
	/* a run of completions that is still to be counted */
	struct inflight *inflight;
	struct rmem_lease *lease;
	struct rmem_buffer *buffer;
	unsigned n_run;
};

/* The first error of an operation; nothing more of it is cut. */
void complete_error(struct rmem_queue *queue, struct op *op, int err, const char *why,
		    uint32_t vendor);
/* Complete it if nothing of it is on a channel and there is nothing left to do, or no
 * sense in doing it. */
void complete_check(struct rmem_queue *queue, struct op *op);
/* It was started and there is nothing to be cut. */
void complete_nothing(struct rmem_queue *queue, struct op *op);
/* It is complete without a fragment. */
void complete_done(struct rmem_queue *queue, struct op *op, int status);

/* A fragment was refused: it waits for what the server says of its lease. */
void complete_refused(struct rmem_queue *queue, struct fragment *fragment);
/* Nothing more goes through the channel in this channel. */
RARE void complete_kill(struct rmem_queue *queue, struct send_side *side);
/* Take the fabric's completions, whole operations into the reaper (NULL: none) at once. */
void complete_completions(struct rmem_queue *queue, struct reaper *reaper);
/* The same for n completions of a domain that are in queue->wcs; < 0: there will be none. */
void complete_taken(struct rmem_queue *queue, unsigned domain, int n,
		    struct reaper *reaper);
/* Free the channels that are dead and have nothing outstanding, ask for others. */
void complete_dead(struct rmem_queue *queue);
/* All that is not on a channel ends in `err`. */
void complete_waiting(struct rmem_queue *queue, int err, const char *why);
/* An operation is over, before its time or because of it. */
void complete_verdict(struct rmem_queue *queue, struct op *op, int verdict);
/* Pass verdicts on what is overdue, and give up what dead channels do not give back. */
void complete_deadlines(struct rmem_queue *queue, uint64_t now_ns);

/* Take those that are complete in the table. */
void reap_done(struct reaper *reaper);

/* Count what was taken; done by the caller that made it, before it looks at the completions. */
static inline void reap_end(struct reaper *reaper)
{
	if (reaper->n_run > 0)
		inflight_end(reaper->inflight, reaper->lease, reaper->buffer,
			     reaper->n_run);
}

#endif
