/* SPDX-License-Identifier: BSD-3-Clause */
/* How operations end: completions, refusals, errors, verdicts.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_SETTLE_H
#define LIBRMEM_SETTLE_H

#include "librmem/queue.h"
#include "librmem/taker.h"

/* The first error of an operation; nothing more of it is cut. */
void settle_error(struct rmem_queue *queue, struct op *op, int err, const char *why,
		  uint32_t vendor);
/* Complete it if nothing of it is on a channel and there is nothing left to do, or no
 * sense in doing it. */
void settle(struct rmem_queue *queue, struct op *op);
/* It was started and there is nothing to be cut. */
void settle_nothing(struct rmem_queue *queue, struct op *op);
/* It is complete without a piece. */
void settle_done(struct rmem_queue *queue, struct op *op, int status);

/* Nothing more goes through the channel in this slot. */
void settle_kill(struct rmem_queue *queue, struct channel_slot *slot);
/* Take the fabric's completions, whole operations into the taker (NULL: none) at once. */
void settle_completions(struct rmem_queue *queue, struct taker *taker);
/* The same for n completions of a domain that are in queue->wcs; < 0: there will be none. */
void settle_taken(struct rmem_queue *queue, unsigned domain, int n,
		  struct taker *taker);
/* Look at slots and leases that have news. */
void settle_news(struct rmem_queue *queue);
/* Free the channels that are dead and have nothing outstanding, ask for others. */
void settle_dead(struct rmem_queue *queue);
/* All that is not on a channel ends in `err`. */
void settle_waiting(struct rmem_queue *queue, int err, const char *why);
/* An operation is over, before its time or because of it. */
void settle_verdict(struct rmem_queue *queue, struct op *op, int verdict);
/* Pass verdicts on what is overdue, and give up what dead channels do not give back. */
void settle_deadlines(struct rmem_queue *queue, uint64_t now_ns);

#endif
