/* SPDX-License-Identifier: BSD-3-Clause */
/* The short way of an operation that is outstanding alone, as with a program that waits for each:
 * posted and taken with as little as it needs.  It is inlined into rmem_submit(), rmem_poll() and
 * the synchronous calls.  What it does not take goes the way of all others.
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_ALONE_H
#define LIBRMEM_QUEUE_ALONE_H

#include "base/clock.h"
#include "librmem/lease/buffer.h"
#include "librmem/lease/inflight.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/complete.h"
#include "librmem/queue/queue.h"
#include "librmem/queue/schedule.h"
#include "librmem/queue/validate.h"
#include "librmem/session/session.h"

/* A call that submits begins: take the time, and what is due. */
static inline void alone_begin(struct rmem_queue *queue)
{
	uint64_t now_ns = clock_now_ns();

	queue->now_ns = now_ns;
	if (atomic_load_explicit(&queue->woken, memory_order_acquire))
		schedule_news(queue);
	if (now_ns >= queue->next_deadline_ns)
		complete_deadlines(queue, now_ns);
}

/* There is room for one more, and nothing waits: whatever did would be outstanding. */
static inline bool alone_next(const struct rmem_queue *queue)
{
	return queue->table.n_free == queue->table.n_ops ||
	       (queue->table.n_free > 0 && !schedule_waits(queue));
}

/* It is a plain one, of this session, and nothing else waits. */
static inline bool alone_plain(const struct rmem_queue *queue, const struct rmem_op *op,
			       const struct rmem_lease *lease,
			       const struct rmem_buffer *buffer)
{
	const struct rmem *session = queue->session;

	return (op->opcode == RMEM_OP_READ || op->opcode == RMEM_OP_WRITE) &&
	       op->flags == 0 && lease && lease->session == session && buffer &&
	       buffer->session == session && alone_next(queue) && !queue->carry_fence &&
	       session_usable(session, queue->now_ns) == 0;
}

/* It is allowed, lies in the lease and in the buffer, and is of one fragment. */
static inline bool alone_fits(const struct rmem_queue *queue, const struct rmem_op *op,
			      const struct rmem_lease *lease,
			      const struct rmem_buffer *buffer,
			      const struct attachment *att)
{
	uint64_t bytes = op->bytes;

	return validate_lease(lease, att, op->opcode) && bytes - 1 < queue->share_max &&
	       bytes <= att->bytes && op->offset <= att->bytes - bytes &&
	       buffer_holds(buffer, op->addr, bytes);
}

/* Post it on a channel that takes it.  False: that one is dead. */
static inline bool alone_put(struct rmem_queue *queue, const struct rmem_op *todo,
			     struct inflight *inflight,
			     const struct rmem_buffer *buffer,
			     const struct attachment *att, struct send_side *side,
			     const struct fabric_key *key)
{
	_Static_assert((int)RMEM_OP_READ == FABRIC_READ &&
			       (int)RMEM_OP_WRITE == FABRIC_WRITE,
		       "each is named as what the fabric does");
	struct op *op;
	int result;

	result = queue->ops->post_one(side->fabric, (enum fabric_opcode)todo->opcode,
				      buffer->mrs[side->domain], key, op_part(todo));
	if (result != 1) {
		if (result < 0)
			complete_kill(queue, side);
		return false;
	}
	op = optable_take(&queue->table);
	op_launch(op, todo, inflight, att, queue_deadline_ns(queue, todo->timeout_ms));
	queue->active++;
	channel_set_put(&queue->channels, side, &op->own);
	return true;
}

/* The channel whose turn it is takes nothing now, or leads to where the lease is not lent through:
 * post it on the next one that takes it.  False: none does. */
RARE bool alone_seek(struct rmem_queue *queue, const struct rmem_op *todo,
		     struct inflight *inflight, const struct rmem_buffer *buffer,
		     const struct attachment *att);

/* Post it on the channel whose turn it is, or another one.  False: none takes it now, or it is
 * dead. */
static inline bool alone_post(struct rmem_queue *queue, const struct rmem_op *todo,
			      struct inflight *inflight,
			      const struct rmem_buffer *buffer,
			      const struct attachment *att)
{
	struct channel_set *set = &queue->channels;
	struct send_side *side = set->next;
	const struct attachment_key *key = &att->keys[0][side->endpoint];

	if (!channel_set_open(set, side) || !key->present)
		return alone_seek(queue, todo, inflight, buffer, att);
	(void)channel_set_next(set);
	return alone_put(queue, todo, inflight, buffer, att, side, &key->at);
}

/* Check the operation and post it.  False: nothing is done, and it goes the way of all others, where
 * it may turn out to be wrong. */
static inline bool alone_submit(struct rmem_queue *queue, const struct rmem_op *op)
{
	struct rmem_lease *lease = op->lease;
	struct rmem_buffer *buffer = op->buffer;
	const struct attachment *att;
	struct inflight *inflight;

	if (!alone_plain(queue, op, lease, buffer))
		return false;
	/* before the lease is looked at: who frees it must see that it is in use */
	inflight = inflight_begin(&queue->inflights, lease, buffer, 1);
	att = atomic_load_explicit(&lease->attachment, memory_order_acquire);
	if (alone_fits(queue, op, lease, buffer, att) &&
	    alone_post(queue, op, inflight, buffer, att))
		return true;
	inflight_end(inflight, lease, buffer, 1);
	return false;
}

/* Take the operation that is outstanding alone, as its completion says; nothing else waits for
 * it.  False: it is not whole, or failed. */
static inline bool alone_take(struct rmem_queue *queue, const struct fabric_wc *wc,
			      struct rmem_completion *ret_completion)
{
	struct send_side *side = wc->owner;
	struct op *op = side->fragments[side->first]->op;

	if (wc->status != 0 || !op->whole)
		return false;
	side->proven = true;
	(void)channel_set_take(&queue->channels, side);
	ret_completion->cookie = op->todo.cookie;
	ret_completion->status = 0;
	ret_completion->vendor = 0;
	ret_completion->bytes = op->todo.bytes;
	inflight_end(op->inflight, op->todo.lease, op->todo.buffer, 1);
	queue->active--;
	optable_give(&queue->table, op);
	return true;
}

/* Take the one that is outstanding alone, if it is complete.  False: there is something else to be
 * done. */
static inline bool alone_poll(struct rmem_queue *queue,
			      struct rmem_completion *ret_completion, int *ret_got)
{
	if (queue_outstanding(queue) != 1 || queue->table.n_done > 0 ||
	    queue->channels.n_dead > 0 ||
	    atomic_load_explicit(&queue->woken, memory_order_acquire))
		return false;
	for (unsigned i = 0; i < queue->n_cqs; i++) {
		int n;

		if (!queue->cqs[i])
			continue;
		n = queue->ops->poll(queue->cqs[i], queue->wcs, QUEUE_WCS);
		if (n == 0)
			continue;
		*ret_got = 1;
		if (n == 1 && alone_take(queue, queue->wcs, ret_completion))
			return true;
		queue->now_ns = 0;
		complete_taken(queue, i, n, NULL);
		return false;
	}
	*ret_got = 0;
	return !schedule_waits(queue) && !schedule_overdue(queue);
}

#endif
