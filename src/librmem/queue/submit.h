/* SPDX-License-Identifier: BSD-3-Clause */
/* Submits one operation that has to wait for nothing; inlined into rmem_submit() and the
 * synchronous calls.  submit.c does everything else.
 *
 * Threads: [owner of the queue]. */
#ifndef LIBRMEM_QUEUE_SUBMIT_H
#define LIBRMEM_QUEUE_SUBMIT_H

#include "librmem/queue/complete.h"
#include "librmem/queue/queue.h"
#include "librmem/queue/runs.h"
#include "librmem/queue/schedule.h"
#include "librmem/queue/validate.h"

/* It is time to look at deadlines: what has completed on the wire meanwhile keeps its result. */
void submit_deadlines(struct rmem_queue *queue);

/* At the start of a call that submits: read the clock, handle events and time-outs.
 *   -ESTALE  the session is inherited; submit_end() is not called then */
static inline int submit_begin(struct rmem_queue *queue)
{
	uint64_t now_ns = clock_now_ns();

	queue->now_ns = now_ns;
	attachments_enter(&queue->inflights);
	if (atomic_load_explicit(&queue->woken, memory_order_acquire)) {
		int err = session_own(queue->session);

		if (err) {
			attachments_leave(&queue->inflights);
			return err;
		}
		schedule_events(queue);
	}
	if (now_ns >= queue->next_deadline_ns)
		submit_deadlines(queue);
	return 0;
}

static inline void submit_end(struct rmem_queue *queue)
{
	attachments_leave(&queue->inflights);
}

/* No operation waits, so a new one may be posted now. */
static inline bool submit_is_open(const struct rmem_queue *queue)
{
	/* a queue with nothing outstanding has neither waiting operations nor a fence */
	return (queue_outstanding(queue) == 0 ||
		(!schedule_waits(queue) && !queue->carry_fence)) &&
	       session_usable(queue->session, queue->now_ns) == 0;
}

/* submit_pick() when the next channel cannot carry the operation. */
RARE struct send_side *submit_search(struct rmem_queue *queue,
				     const struct attachment *att);

/* The next channel with a credit and an rkey of a lease of one segment.  NULL: none now. */
static inline struct send_side *submit_pick(struct rmem_queue *queue,
					    const struct attachment *att)
{
	struct channel_set *set = &queue->channels;
	struct send_side *side = set->next;

	if (!channel_set_open(set, side) || !att->keys[0][side->endpoint].present)
		return submit_search(queue, att);
	return channel_set_next(set);
}

/* Post the only operation of a run.  False: no channel can carry the operation now, or the chosen
 * connection is dead. */
static inline bool submit_post_one(struct rmem_queue *queue, const struct run *run,
				   const struct rmem_op *todo)
{
	_Static_assert((int)RMEM_OP_READ == FABRIC_READ &&
			       (int)RMEM_OP_WRITE == FABRIC_WRITE,
		       "the opcodes are those of the fabric");
	const struct attachment *att = run->att;
	struct send_side *side = submit_pick(queue, att);
	unsigned n = 1;
	int result;

	if (!side)
		return false;
	result = queue->ops->post_one(side->fabric, (enum fabric_opcode)todo->opcode,
				      todo->buffer ? todo->buffer->mrs[side->domain]
						   : NULL,
				      &att->keys[0][side->endpoint].at, op_part(todo));
	if (result != 1) {
		if (result < 0)
			complete_kill(queue, side);
		return false;
	}
	runs_put(queue, side, run, queue_deadline_ns(queue, todo->timeout_ms), todo, 1,
		 channel_set_end(&queue->channels, side, &n));
	return true;
}

/* Post one operation at once.  False: call submit_all(), which reports errors. */
static inline bool submit_one(struct rmem_queue *queue, const struct rmem_op *op)
{
	struct run run;

	if (queue->table.n_free == 0 || !run_allowed(queue, op) ||
	    !submit_is_open(queue))
		return false;
	run_begin(&run, queue, op, 1);
	if (run_valid(op) && run_holds(&run, op) && submit_post_one(queue, &run, op))
		return true;
	inflight_end(run.inflight, op->lease, op->buffer, 1);
	return false;
}

/* rmem_submit() after submit_begin(). */
int submit_all(struct rmem_queue *queue, const struct rmem_op *ops, unsigned n);

#endif
