/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that have to wait for nothing, submitted together: each is one fragment of registered
 * memory, and what a run of them has in common is looked at once.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_BURST_H
#define LIBRMEM_QUEUE_BURST_H

#include "librmem/queue/queue.h"

struct burst {
	struct rmem_queue *queue;
	bool open; /* nothing has to wait */
	/* of the run under way */
	const struct rmem_op *first;
	struct inflight *inflight;
	const struct attachment *att;
	uint64_t deadline_ns;
	uintptr_t local_base;
	uint64_t local_bytes;
	uint64_t max_bytes; /* of one operation; not more than lease or buffer have */
	/* the channel that the operations go to; NULL: none is chosen */
	struct send_side *side;
	unsigned room;        /* operations that it takes still, */
	uint64_t share_bytes; /* each of so many bytes at most */
	struct fabric_batch run;
};

/* Begin, in a call of rmem_submit(). */
void burst_start(struct burst *burst, struct rmem_queue *queue);
/* Take in operations that agree with the first, as long as they can go at once; returns how
 * many did.  Once one has to wait, all that come later do, too. */
unsigned burst_add(struct burst *burst, const struct rmem_op *ops, unsigned n);
/* Post what was taken in. */
void burst_end(struct burst *burst);

#endif
