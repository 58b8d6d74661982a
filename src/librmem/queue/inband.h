/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that the server does near its memory: their fragments are in-band requests, which
 * have no local memory.  A write that notifies ends in one, its message: a fragment of no
 * bytes that goes out once all others are done; a ping is nothing else.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_INBAND_H
#define LIBRMEM_QUEUE_INBAND_H

#include "librmem/queue/queue.h"

/* Free the lease that pings are of.  NULL: nothing. */
void inband_nowhere_free(struct rmem_lease *lease);

/* 0, or why an operation must not be submitted, with text: -EINVAL, -ENOTSUP; -ENOMEM for the
 * queue's first ping. */
int inband_able(struct rmem_queue *queue, const struct rmem_op *todo);
/* Take over what was submitted. */
void inband_take(struct rmem_queue *queue, struct op *op, const struct rmem_op *todo);
/* The operation is taken, or forgotten: count the source back.  Of one that has none:
 * nothing. */
void inband_leave(const struct op *op);
/* 0, or why it cannot be started; it lies in the lease, which has the rights. */
int inband_check(const struct op *op, const char **ret_why);
/* It starts: choose its channels. */
void inband_start(const struct rmem_queue *queue, struct op *op);

/* How many bytes behind `offset` lie in one segment of the source; of an operation that has
 * none: all.  0: the source was made shorter. */
uint64_t inband_span(const struct op *op, uint64_t offset);
/* The next channel that takes a request for what lies `offset` into the operation. */
enum pick inband_pick(struct rmem_queue *queue, const struct op *op, uint64_t offset,
		      const struct attachment *att, unsigned segment,
		      struct send_side **ret_side);
/* Put the fragment's request; as the ops table's prepare_inband(). */
int inband_put(struct rmem_queue *queue, struct fragment *fragment,
	       struct send_side *side, const struct attachment *att, unsigned segment);
/* The fragment is done: keep what came of it. */
void inband_done(struct fragment *fragment);
/* All but the message is done, and that is still to be sent: make it a fragment. */
void inband_message(struct rmem_queue *queue, struct op *op);

/* The lease has ended, or the source's has. */
bool inband_stale(const struct op *op);

/* It has a message that is not sent yet. */
static inline bool inband_waits(const struct op *op)
{
	return opcode_is_inband(op->todo.opcode) && op->inband.message;
}

/* It copies from the lease. */
static inline bool inband_source_is(const struct op *op, const struct rmem_lease *lease)
{
	return op->todo.opcode == RMEM_OP_COPY && op->inband.source.lease == lease;
}

#endif
