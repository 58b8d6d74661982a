/* SPDX-License-Identifier: BSD-3-Clause */
/* Most operations are posted in runs and succeed: then nothing is stored of them but a struct
 * posted_op.  To all others, and before anything is looked for in the table of operations, the
 * functions here give a struct op.
 *
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_RUNS_H
#define LIBRMEM_QUEUE_RUNS_H

#include "librmem/queue/queue.h"
#include "librmem/queue/validate.h"

_Static_assert(offsetof(struct rmem_op, lease) == offsetof(struct posted_head, lease) &&
		       offsetof(struct rmem_op, buffer) ==
			       offsetof(struct posted_head, buffer) &&
		       offsetof(struct rmem_op, offset) == sizeof(struct posted_head) &&
		       offsetof(struct rmem_op, cookie) ==
			       offsetof(struct rmem_op, offset) +
				       offsetof(struct posted_op, cookie),
	       "a head and a posted operation are the beginning of an operation");

/* Put a run of n operations, n > 0, on a channel that has a credit for each of them and the places
 * from `posted` on. */
static inline void runs_put(struct rmem_queue *queue, struct send_side *side,
			    const struct run *checked, uint64_t deadline_ns,
			    const struct rmem_op *ops, unsigned n,
			    struct posted_op *posted)
{
	struct posted_run *run = channel_set_put(&queue->channels, side, n);

	run->fragment = NULL;
	memcpy(&run->head, ops, sizeof(run->head));
	run->generation = checked->att->generation;
	run->inflight = checked->inflight;
	run->deadline_ns = deadline_ns;
	run->n = n;
	for (unsigned i = 0; i < n; i++)
		memcpy(&posted[i], &ops[i].offset, sizeof(posted[i]));
	queue->table.n_free -= n;
	queue->active += n;
}

/* Remove the first fragment, or operation of a run, from a channel that has one. */
struct fragment *runs_pop(struct rmem_queue *queue, struct send_side *side);
/* Give each operation on the channel a struct op. */
void runs_split(struct rmem_queue *queue, struct send_side *side);
/* runs_split() for all channels. */
void runs_split_all(struct rmem_queue *queue);

#endif
