/* SPDX-License-Identifier: BSD-3-Clause */
/* In-band operations, which the server does near its memory: their fragments are in-band requests
 * without local memory.  RMEM_OP_WRITE_NOTIFY ends in such a request, its message: a fragment of no
 * bytes, posted once all others are done.  A ping is only a message.
 *
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_INBAND_H
#define LIBRMEM_QUEUE_INBAND_H

#include "librmem/queue/queue.h"

/* Free `nowhere`, the placeholder lease that pings refer to.  NULL: nothing. */
void inband_nowhere_free(struct rmem_lease *lease);

/* 0, or why an operation must not be submitted, with text: -EINVAL, -ENOTSUP; -ENOMEM for the
 * queue's first ping. */
int inband_able(struct rmem_queue *queue, const struct rmem_op *todo);
/* Copy the in-band operands of the submitted operation, and count the use of a copy's source. */
void inband_prepare(struct rmem_queue *queue, struct op *op,
		    const struct rmem_op *todo);
/* End the use of the copy's source.  No effect on other operations. */
void inband_leave(const struct op *op);
/* 0, or why the operation cannot start; rights and bounds of its lease were checked. */
int inband_check(const struct op *op, const char **ret_why);
/* Start the operation: choose its endpoints. */
void inband_start(const struct rmem_queue *queue, struct op *op);

/* Number of bytes from `offset` on in one segment of the source; UINT64_MAX: not a copy; 0: the
 * source was made shorter. */
uint64_t inband_span(const struct op *op, uint64_t offset);
/* The next channel that can carry a request for the part of the operation at `offset`. */
enum pick inband_pick(struct rmem_queue *queue, const struct op *op, uint64_t offset,
		      const struct attachment *att, unsigned segment,
		      struct send_side **ret_side);
/* Prepare the fragment's request; returns as fabric_client_ops.prepare_inband(), or -ESTALE: the
 * source was made shorter. */
int inband_put(struct rmem_queue *queue, struct fragment *fragment,
	       struct send_side *side, const struct attachment *att, unsigned segment);
/* The fragment is done.  Store its result. */
void inband_done(struct fragment *fragment);
/* All but the message is done: make the message a fragment. */
void inband_message(struct rmem_queue *queue, struct op *op);

/* The operation's lease has ended, or its source's lease: the text; else NULL. */
const char *inband_stale(const struct op *op);

/* The operation has a message that is not sent yet. */
static inline bool inband_waits(const struct op *op)
{
	return opcode_is_inband(op->todo.opcode) && op->inband.message;
}

/* The operation copies from the lease. */
static inline bool inband_source_is(const struct op *op, const struct rmem_lease *lease)
{
	return op->todo.opcode == RMEM_OP_COPY && op->inband.source.lease == lease;
}

#endif
