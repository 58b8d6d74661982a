/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/deadlines.h"

#include <errno.h>

#include "librmem/queue/complete.h"
#include "librmem/queue/runs.h"

/* ---- giving up ---- */

static bool channel_carries(const struct rmem_queue *queue,
			    const struct send_side *side, const struct op *op)
{
	for (unsigned k = 0; k < side->n_runs; k++)
		if (channel_set_run(&queue->channels, side, k)->fragment->op == op)
			return true;
	return false;
}

void deadlines_give_up(struct rmem_queue *queue, struct op *op, int reason)
{
	if (op->end.given_up == 0)
		op->end.given_up = reason;
	complete_cut(queue, op);
	/* a fragment on the wire may still use the operation's memory */
	sides_for_each(side, &queue->channels)
		if (op->in_flight > 0 && channel_set_serves(side) &&
		    channel_carries(queue, side, op))
			complete_kill(queue, side);
	complete_check(queue, op);
}

/* Free connections that the device, perhaps removed, has not flushed in time.  Returns the earliest
 * flush_ns of the others. */
static uint64_t unflushed_channels_lose(struct rmem_queue *queue, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	sides_for_each(side, &queue->channels) {
		if (side->live || side->in_flight == 0)
			continue;
		if (side->flush_ns <= now_ns)
			complete_channel_lost(queue, side, -ECONNRESET,
					      "the device gave no completions");
		else if (side->flush_ns < next)
			next = side->flush_ns;
	}
	return next;
}

void deadlines_limit(struct rmem_queue *queue, uint64_t deadline_ns)
{
	runs_split_all(queue);
	ops_for_each(op, &queue->table) {
		if ((op->state == OP_PENDING || op->state == OP_POSTED) &&
		    op->deadline_ns > deadline_ns)
			op->deadline_ns = deadline_ns;
	}
	/* what channels have done before is no progress */
	sides_for_each(side, &queue->channels) {
		side->progress_ns = 0;
		side->seen = side->ended;
	}
	if (deadline_ns < queue->next_deadline_ns)
		queue->next_deadline_ns = deadline_ns;
}

/* End a deaf channel while there is time for another one.  In-band requests wait for the server's
 * process too, which may be busy. */
static void channel_check_silence(struct rmem_queue *queue, struct send_side *side,
				  uint64_t now_ns)
{
	uint64_t max_ns = queue_look_ns(0, queue->timeout_ns);

	if (max_ns < CHANNEL_SILENCE_MIN_MS * NS_PER_MS)
		max_ns = CHANNEL_SILENCE_MIN_MS * NS_PER_MS;
	if (!side->deaf || side->ended != side->seen ||
	    side->in_flight <= side->requests)
		side->silent_ns = 0;
	else if (!side->silent_ns)
		side->silent_ns = now_ns;
	else if (now_ns - side->silent_ns >= max_ns)
		complete_kill(queue, side);
}

/* Find the channels on which fragments have completed since the last look; the operations of their
 * other fragments wait only for their turn. */
static void channels_look(struct rmem_queue *queue, uint64_t now_ns)
{
	sides_for_each(side, &queue->channels) {
		channel_check_silence(queue, side, now_ns);
		if (side->ended != side->seen)
			side->progress_ns = now_ns;
		side->seen = side->ended;
		for (unsigned k = 0; channel_set_serves(side) && k < side->n_runs; k++)
			op_moved(queue,
				 channel_set_run(&queue->channels, side, k)
					 ->fragment->op,
				 side->progress_ns);
	}
}

/* The last progress of the channels to one of `endpoints`. */
static uint64_t progress_ns(const struct rmem_queue *queue, unsigned endpoints)
{
	uint64_t last_ns = 0;

	sides_for_each(side, &queue->channels) {
		if ((endpoints & (1u << side->endpoint)) && side->progress_ns > last_ns)
			last_ns = side->progress_ns;
	}
	return last_ns;
}

static void ops_moved(const struct rmem_queue *queue, struct list *ops,
		      uint64_t moved_ns)
{
	list_for_each_entry(struct op, op, ops, node)
		op_moved(queue, op, moved_ns);
}

/* Operations in a wait list wait for the channels to its endpoints; those that were not started,
 * for any operation before them.  Fragments that wait for the server, after a refusal or a loss,
 * and atomics that wait for their atomic device, are moved by no channel. */
static void waiting_look(struct rmem_queue *queue)
{
	struct optable *table = &queue->table;

	ops_moved(queue, &table->pending, progress_ns(queue, ENDPOINTS_ALL));
	list_for_each_entry(struct wait_list, list, &table->stalled, node) {
		uint64_t moved_ns = progress_ns(queue, list->endpoints);

		ops_moved(queue, &list->ops, moved_ns);
		list_for_each_entry(struct fragment, fragment, &list->reposts, node)
			op_moved(queue, fragment->op, moved_ns);
	}
}

/* When to look at the operation next. */
static uint64_t op_due_ns(const struct rmem_queue *queue, const struct op *op,
			  uint64_t now_ns)
{
	uint64_t look_ns =
		queue_look_ns(now_ns, queue_timeout_ns(queue, op->todo.timeout_ms));

	return look_ns < op->deadline_ns ? look_ns : op->deadline_ns;
}

void deadlines_handle(struct rmem_queue *queue, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX, flush;

	runs_split_all(queue);
	channels_look(queue, now_ns);
	waiting_look(queue);
	ops_for_each(op, &queue->table) {
		if ((op->state != OP_PENDING && op->state != OP_POSTED) ||
		    op->end.given_up)
			continue;
		if (op->deadline_ns <= now_ns)
			deadlines_give_up(queue, op, -ETIMEDOUT);
		else if (op_due_ns(queue, op, now_ns) < next)
			next = op_due_ns(queue, op, now_ns);
	}
	/* after giving up operations, which aborts connections */
	flush = unflushed_channels_lose(queue, now_ns);
	queue->next_deadline_ns = flush < next ? flush : next;
}
